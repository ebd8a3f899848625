/** With these headers a page may share memory between its workers. `pages/public/_headers` has the same for hosts. */
export const isolation: Record<string, string> = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};
