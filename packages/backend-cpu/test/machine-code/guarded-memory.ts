import koffi from 'koffi';

const PAGE_BYTES = 4096;
const INNER_BYTES = 16 * PAGE_BYTES;
const PROT_NONE = 0;
const PROT_READ_WRITE = 3;
const MAP_PRIVATE_ANONYMOUS = 0x22;

const library = koffi.load(null);
const mmap = library.func('mmap', 'void *', ['void *', 'size_t', 'int', 'int', 'int', 'int64_t']);
const mprotect = library.func('mprotect', 'int', ['void *', 'size_t', 'int']);

/**
 * Maps 64 KiB between two pages that nobody may access. The function it returns gives the address of a range of that
 * length at the start or at the end of the 64 KiB.
 */
export function guardedMemory(): (byteLength: number, atEnd: boolean) => bigint {
  const byteLength = INNER_BYTES + 2 * PAGE_BYTES;
  const address: unknown = mmap(null, byteLength, PROT_NONE, MAP_PRIVATE_ANONYMOUS, -1, 0);
  if (typeof address !== 'bigint') throw new Error('no memory');
  const inner = address + BigInt(PAGE_BYTES);
  if (mprotect(inner, INNER_BYTES, PROT_READ_WRITE) !== 0) throw new Error('refused');
  return (used, atEnd) => (atEnd ? inner + BigInt(INNER_BYTES - used) : inner);
}
