import koffi from 'koffi';
import { configureCalls } from '../onnx/runtime/call-threads.ts';

/** A place in the memory of this process. */
export type Address = bigint;

/** This system is of a kind on which machine code is not run. */
export class NoCodeError extends Error {}

const PROT_READ_WRITE = 1 | 2;
const PROT_READ_EXECUTE = 1 | 4;
const MAP_PRIVATE_ANONYMOUS = 0x02 | 0x20;

/** Where machine code of ours has been seen to run. That of AArch64 has not been yet: 'linux-arm64' here lets it run. */
const platforms: readonly string[] = ['linux-x64'];

/** Throws NoCodeError where machine code of this architecture is not run. */
export function requirePlatform(codeArch: 'x64' | 'arm64'): void {
  const { platform, arch } = process;
  if (arch !== codeArch) throw new NoCodeError(`the processor is ${arch}`);
  if (!platforms.includes(`${platform}-${arch}`)) {
    throw new NoCodeError(`on ${platform} with ${arch} machine code of ours is not run`);
  }
}

/**
 * Puts machine code into memory where it can be run, and says where it begins. Its pages are writable first, and
 * executable then, never both; where the processor does not see by itself that code has changed, the system tells it as pages become
 * executable. They stay as long as the process: calls on other threads may still run there. Throws
 * an error that says why where this system has no such pages, or refuses them.
 */
export function placeCode(code: Uint8Array, codeArch: 'x64' | 'arm64' = 'x64'): Address {
  requirePlatform(codeArch);
  configureCalls();
  const library = koffi.load(null);
  const mmap = library.func('mmap', 'void *', ['void *', 'size_t', 'int', 'int', 'int', 'int64_t']);
  const mprotect = library.func('mprotect', 'int', ['void *', 'size_t', 'int']);
  const byteLength = code.byteLength;
  const address: unknown = mmap(null, byteLength, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
  if (typeof address !== 'bigint' || address === 0xffff_ffff_ffff_ffffn) {
    throw new Error('the system gives no memory for machine code');
  }
  new Uint8Array(koffi.view(address, byteLength)).set(code);
  if (mprotect(address, byteLength, PROT_READ_EXECUTE) !== 0) {
    library.func('munmap', 'int', ['void *', 'size_t'])(address, byteLength);
    throw new Error('the system refuses to make memory executable');
  }
  return address;
}

/** Code that takes the address of its operands, and returns nothing. */
export interface NativeCode {
  (operands: BigUint64Array): void;
  /** On a thread of Node's pool. The operands stay in use until `done` is called. */
  async(operands: BigUint64Array, done: (error: Error | null) => void): void;
}

/** The function that begins at an address. */
export function codeAt(address: Address): NativeCode {
  // koffi types what it decodes as unknown; the prototype is what the interface says.
  return koffi.decode(address, koffi.proto('void', ['void *'])) as NativeCode;
}
