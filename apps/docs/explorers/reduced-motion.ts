/** Whether the reader asks for pages that do not move by themselves. Nothing moves where that is not known. */
export function wantsNoMotion(): boolean {
  return globalThis.matchMedia?.('(prefers-reduced-motion: reduce)').matches ?? true;
}
