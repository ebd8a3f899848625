import koffi from 'koffi';
import { configureCalls } from '../onnx/runtime/call-threads.ts';

/** A place in the memory of this process. */
export type Address = bigint;

/** This system is of a kind on which machine code is not run. */
export class NoCodeError extends Error {}

const PROT_READ_WRITE = 1 | 2;
const PROT_READ_EXECUTE = 1 | 4;
const MAP_PRIVATE_ANONYMOUS = 0x02 | 0x20;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

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

/** Memory that code is put into. */
export interface CodePages {
  /** Writable memory; undefined where there is none. */
  map(byteLength: number): Address | undefined;
  /** Makes it executable, and no longer writable. Returns whether that is allowed. */
  makeExecutable(address: Address, byteLength: number): boolean;
  unmap(address: Address, byteLength: number): void;
}

/** The pages that the system gives this process. */
export const systemPages: CodePages = {
  map(byteLength) {
    const types = ['void *', 'size_t', 'int', 'int', 'int', 'int64_t'];
    const mmap = koffi.load(null).func('mmap', 'void *', types);
    const address: unknown = mmap(null, byteLength, PROT_READ_WRITE, MAP_PRIVATE_ANONYMOUS, -1, 0);
    return typeof address === 'bigint' && address !== MAP_FAILED ? address : undefined;
  },
  makeExecutable(address, byteLength) {
    const mprotect = koffi.load(null).func('mprotect', 'int', ['void *', 'size_t', 'int']);
    return mprotect(address, byteLength, PROT_READ_EXECUTE) === 0;
  },
  unmap(address, byteLength) {
    koffi.load(null).func('munmap', 'int', ['void *', 'size_t'])(address, byteLength);
  },
};

/**
 * Puts machine code into memory where it can be run, and says where it begins. Its pages are writable first, and
 * executable then, never both; where the processor does not see by itself that code has changed, the system tells it as pages become
 * executable. They stay as long as the process: calls on other threads may still run there. Throws
 * an error that says why where this system has no such pages, or refuses them.
 */
export function placeCode(
  code: Uint8Array,
  pages: CodePages = systemPages,
  codeArch: 'x64' | 'arm64' = 'x64',
): Address {
  requirePlatform(codeArch);
  configureCalls();
  const byteLength = code.byteLength;
  const address = pages.map(byteLength);
  if (address === undefined) throw new Error('the system gives no memory for machine code');
  new Uint8Array(koffi.view(address, byteLength)).set(code);
  if (!pages.makeExecutable(address, byteLength)) {
    pages.unmap(address, byteLength);
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
