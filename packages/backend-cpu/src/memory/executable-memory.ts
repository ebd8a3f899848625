import koffi from 'koffi';
import type { Address } from './host-address.ts';
import { configureCalls } from './native-calls.ts';

/** Thrown on a system whose kind does not run our machine code. */
export class NoCodeError extends Error {}

const PROT_READ_WRITE = 1 | 2;
const PROT_READ_EXECUTE = 1 | 4;
const MAP_PRIVATE_ANONYMOUS = 0x02 | 0x20;
const MAP_FAILED = 0xffff_ffff_ffff_ffffn;

/**
 * The platforms on which our machine code is known to run: x64 on processors, and AArch64 in an emulator of the
 * processor.
 */
const platforms: readonly string[] = ['linux-x64', 'linux-arm64'];

/** Throws NoCodeError if machine code of this architecture is not run on this system. */
export function requirePlatform(codeArch: 'x64' | 'arm64'): void {
  const { platform, arch } = process;
  if (arch !== codeArch) throw new NoCodeError(`the processor is ${arch}`);
  if (!platforms.includes(`${platform}-${arch}`)) {
    throw new NoCodeError(`on ${platform} with ${arch} machine code of ours is not run`);
  }
}

/** Gives out memory for code. */
export interface ExecutableMemory {
  /** Returns writable memory, or undefined if there is none. */
  map(byteLength: number): Address | undefined;
  /** Makes the memory executable, and no longer writable. Returns whether the system allows that. */
  makeExecutable(address: Address, byteLength: number): boolean;
  unmap(address: Address, byteLength: number): void;
}

/** Memory pages from the system. */
export const systemExecutableMemory: ExecutableMemory = {
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
 * Puts machine code into memory where it can run, and returns its address. Its pages are first writable and then
 * executable, never both. If the processor does not notice changed code by itself, the system tells it when pages
 * become executable. The pages stay as long as the process, because calls on other threads may still run there. Throws
 * an error that says why if this system has no such pages or refuses them.
 */
export function placeCode(
  code: Uint8Array,
  memory: ExecutableMemory = systemExecutableMemory,
  codeArch: 'x64' | 'arm64' = 'x64',
): Address {
  requirePlatform(codeArch);
  configureCalls();
  const byteLength = code.byteLength;
  const address = memory.map(byteLength);
  if (address === undefined) throw new Error('the system gives no memory for machine code');
  new Uint8Array(koffi.view(address, byteLength)).set(code);
  if (!memory.makeExecutable(address, byteLength)) {
    memory.unmap(address, byteLength);
    throw new Error('the system refuses to make memory executable');
  }
  return address;
}

/** Machine code that takes the address of its operands, and returns nothing. */
export interface NativeCode {
  (operands: BigUint64Array): void;
  /** Runs the code on a thread of Node's pool. The operands are in use until `done` is called. */
  async(operands: BigUint64Array, done: (error: Error | null) => void): void;
}

/** Returns the function that begins at an address. */
export function codeAt(address: Address): NativeCode {
  // koffi gives what it decodes the type unknown. The interface describes the prototype.
  return koffi.decode(address, koffi.proto('void', ['void *'])) as NativeCode;
}
