/** Whether the reader prefers pages that do not move by themselves. True if that is unknown. */
export function wantsNoMotion(): boolean {
  return globalThis.matchMedia?.('(prefers-reduced-motion: reduce)').matches ?? true;
}
