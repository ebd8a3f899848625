/** Whether workers can share memory here, and why. */
export interface SharingAvailability {
  readonly available: boolean;
  readonly reason: string;
}

/** Whether workers can share memory here. In a browser they can if the page is isolated from other sites. */
export function sharingAvailability(): SharingAvailability {
  // Only browsers have this property.
  if ('crossOriginIsolated' in globalThis && !globalThis.crossOriginIsolated) {
    return {
      available: false,
      reason:
        'the page is not isolated: serve it with the headers ' +
        'Cross-Origin-Opener-Policy: same-origin and Cross-Origin-Embedder-Policy: require-corp',
    };
  }
  if (typeof Atomics.waitAsync !== 'function') {
    return { available: false, reason: 'this browser has no Atomics.waitAsync' };
  }
  return { available: true, reason: 'workers can share memory here' };
}
