import koffi from 'koffi';

/** MADV_HUGEPAGE of Linux's mman.h. */
const adviceHugePages = 14;
/** No system that we run on has larger ordinary pages; what is advised begins and ends at one. */
const pageBytes = 65_536;

/**
 * Asks Linux to lend huge pages for part of a memory, as it does on request where its setting is
 * `madvise`: a step that walks over gigabytes misses fewer translations of addresses, and begins
 * with fewer page faults. Does nothing elsewhere, or where the system has none. To be called once
 * koffi is configured.
 */
export function adviseHugePages(
  memory: WebAssembly.Memory,
  byteOffset: number,
  byteLength: number,
): void {
  if (process.platform !== 'linux') return;
  const start = Math.ceil(byteOffset / pageBytes) * pageBytes;
  const stop = Math.floor((byteOffset + byteLength) / pageBytes) * pageBytes;
  if (stop <= start) return;
  try {
    const madvise = koffi.load('libc.so.6').func('madvise', 'int', ['void *', 'size_t', 'int']);
    // A refusal changes nothing.
    madvise(koffi.address(new Uint8Array(memory.buffer, start)), stop - start, adviceHugePages);
  } catch {
    // Another C library.
  }
}
