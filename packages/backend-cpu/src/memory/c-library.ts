import koffi from 'koffi';

/** MADV_HUGEPAGE in Linux's mman.h. */
const ADVICE_HUGE_PAGES = 14;
/** No system that we run on has larger ordinary pages. The advised range begins and ends at a multiple of this. */
const PAGE_BYTES = 65_536;

/**
 * Asks Linux for huge pages for a part of a memory. Linux grants them on request if its setting is `madvise`. A
 * training step that walks over gigabytes then misses fewer address translations, and begins with fewer page faults.
 * Does nothing on other systems, or if the system has no huge pages. Call this after koffi is configured.
 */
export function adviseHugePages(
  memory: WebAssembly.Memory,
  byteOffset: number,
  byteLength: number,
): void {
  if (process.platform !== 'linux') return;
  const start = Math.ceil(byteOffset / PAGE_BYTES) * PAGE_BYTES;
  const stop = Math.floor((byteOffset + byteLength) / PAGE_BYTES) * PAGE_BYTES;
  if (stop <= start) return;
  try {
    const madvise = koffi.load('libc.so.6').func('madvise', 'int', ['void *', 'size_t', 'int']);
    // A refusal changes nothing.
    madvise(koffi.address(new Uint8Array(memory.buffer, start)), stop - start, ADVICE_HUGE_PAGES);
  } catch {
    // There is another C library.
  }
}

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

/**
 * Sets a variable of this process's environment, where native libraries read it, unless it is set. In a worker thread
 * `process.env` is only a copy of that environment. Call this after koffi is configured.
 */
export function setNativeVariable(name: string, value: string): void {
  if (process.env[name] !== undefined) return;
  process.env[name] = value;
  try {
    if (process.platform === 'win32') {
      const kernel = koffi.load('kernel32.dll');
      kernel.func('SetEnvironmentVariableA', 'int', ['str', 'str'])(name, value);
    } else {
      // Null is the program itself, which has the functions of its C library.
      koffi.load(null).func('setenv', 'int', ['str', 'str', 'int'])(name, value, 0);
    }
  } catch {
    // There is no such function. In the main thread `process.env` has set the variable.
  }
}
