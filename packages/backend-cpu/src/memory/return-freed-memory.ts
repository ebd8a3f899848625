import koffi from 'koffi';

/** M_MMAP_THRESHOLD in glibc's malloc.h. */
const MMAP_THRESHOLD = -3;
const THRESHOLD_BYTES = 1 << 18;

/**
 * Makes the C library return freed arrays of at least this size to the system. By default, glibc keeps larger and
 * larger arrays, up to 32 MiB, once such arrays have been freed. The arrays that weights were drawn in would then stay
 * resident. Does nothing if there is no glibc. Call this after koffi is configured.
 */
export function returnFreedMemory(): void {
  if (process.platform !== 'linux') return;
  try {
    koffi.load('libc.so.6').func('mallopt', 'int', ['int', 'int'])(MMAP_THRESHOLD, THRESHOLD_BYTES);
  } catch {
    // There is another C library, which decides for itself.
  }
}
