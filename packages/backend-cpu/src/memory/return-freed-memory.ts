import koffi from 'koffi';

/** M_MMAP_THRESHOLD of glibc's malloc.h. */
const mmapThreshold = -3;
const thresholdBytes = 1 << 18;

/**
 * Makes the C library return freed arrays of this size to the system. Left to itself, glibc keeps ever larger
 * ones, up to 32 MiB, once such arrays have been freed: the arrays that weights were drawn in would stay
 * resident. Does nothing where there is no glibc. To be called once koffi is configured.
 */
export function returnFreedMemory(): void {
  if (process.platform !== 'linux') return;
  try {
    koffi.load('libc.so.6').func('mallopt', 'int', ['int', 'int'])(mmapThreshold, thresholdBytes);
  } catch {
    // Another C library, which decides for itself.
  }
}
