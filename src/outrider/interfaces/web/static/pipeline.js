// Times as people read them.

export function duration(ms) {
  if (ms === undefined || ms === null) return "";
  return ms < 1000 ? `${Math.round(ms)} ms` : `${(ms / 1000).toFixed(1)} s`;
}
