// Names of the parts of a score for readers, where those of the code are terms of the field.

import { words } from "./dom.js";

const NAMES = { text: "words of the request", subject: "subject of a repository", fused: "merged lists", renown: "citations or stars", citations: "citations or stars" };
export const namePart = (name) => NAMES[name] ?? words(name);
