/**
 * Headers that allow a page to share memory between its workers. `pages/public/_headers` contains the same ones for
 * hosts.
 */
export const isolation: Record<string, string> = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};
