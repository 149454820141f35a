// The OpenAPI description in Swagger UI. Its requests carry the key of this tab, and every file comes from this server.

import { KEY_STORAGE, json } from "./api.js";
import { byId } from "./dom.js";

/** Add the key, unless the request has one from the dialog "Authorize". */
function addKey(request) {
  const key = sessionStorage.getItem(KEY_STORAGE);
  const own = Object.keys(request.headers).some((name) => ["authorization", "x-api-key"].includes(name.toLowerCase()));
  if (key && !own) request.headers.Authorization = `Bearer ${key}`;
  return request;
}

try {
  const spec = await json("openapi.json");
  spec.servers = [{ url: new URL(".", document.baseURI).href.replace(/\/$/, "") }]; // also below the path of a proxy
  globalThis.SwaggerUIBundle({
    spec,
    dom_id: "#description",
    requestInterceptor: addKey,
    tryItOutEnabled: true,
    docExpansion: "list",
    deepLinking: true,
    filter: true,
    defaultModelsExpandDepth: 0,
    validatorUrl: null,
    onComplete: () => (document.documentElement.dataset.ready = "yes"),
  });
} catch (error) {
  byId("description").textContent = error.message;
}
