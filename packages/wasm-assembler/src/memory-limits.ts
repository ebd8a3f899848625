import { encodeModule } from './encode-module.ts';

/** Memories are multiples of this. */
export const pageBytes = 65_536;

/** What addresses of 32 bits reach, less one page so that a length fits 32 bits. */
export const narrowMemoryBytes: number = 2 ** 32 - pageBytes;

/** The most that WebAssembly's interface for JavaScript grants a memory whose addresses have 64 bits. */
const wideMemoryBytes = 2 ** 34;

/** Leaves some of the machine to others, and to what a process has beside the memory of its tensors. */
const defaultShare = 3 / 4;

export interface MemoryLimits {
  /** The most that a memory can have. */
  readonly largestBytes: number;
  /** What sets that limit, as `this machine has 8 GiB`. */
  readonly reason: string;
  /** What is sensible for one process that is told nothing; what is not written to takes no memory. */
  readonly defaultBytes: number;
}

/** What decides how large memories are. */
export interface MemoryHost {
  /** What WebAssembly grants a memory. */
  readonly engineBytes: number;
  /** Of the machine, or of the container that this process is in; browsers do not tell. */
  readonly machineBytes: number | 'unknown';
  /** Whether pages that nobody has written to take nothing from others. */
  readonly lendsOnDemand: boolean;
}

/** How large a memory can be, and should be, on a host: by default on this one. */
export function memoryLimits(host: MemoryHost = thisHost()): MemoryLimits {
  const { engineBytes, machineBytes, lendsOnDemand } = host;
  const isKnown = machineBytes !== 'unknown';
  // Of 4 GiB nothing is asked: few machines have less.
  const usableBytes = isKnown ? Math.max(machineBytes, narrowMemoryBytes) : engineBytes;
  const shareBytes = isKnown && lendsOnDemand ? machineBytes * defaultShare : 0;
  return {
    largestBytes: wholePages(Math.min(engineBytes, usableBytes)),
    defaultBytes: wholePages(Math.min(engineBytes, Math.max(shareBytes, narrowMemoryBytes))),
    reason:
      usableBytes < engineBytes
        ? `this machine has ${machineBytes} bytes of memory`
        : `WebAssembly has at most ${engineBytes} bytes here`,
  };
}

function thisHost(): MemoryHost {
  return {
    engineBytes: engineMemoryBytes(),
    machineBytes: machineMemoryBytes(),
    // Windows counts all of a memory as used when it is made.
    lendsOnDemand: typeof process === 'undefined' || process.platform !== 'win32',
  };
}

/** Browsers without addresses of 64 bits have less than 4 GiB. */
function engineMemoryBytes(): number {
  const module = encodeModule(new Map(), { shared: true, width: 'wide' });
  return WebAssembly.validate(module) ? wideMemoryBytes : narrowMemoryBytes;
}

function machineMemoryBytes(): number | 'unknown' {
  if (typeof process === 'undefined' || typeof process.getBuiltinModule !== 'function') {
    return 'unknown';
  }
  const totalBytes = process.getBuiltinModule('node:os').totalmem();
  const constrainedBytes = process.constrainedMemory();
  return constrainedBytes > 0 ? Math.min(totalBytes, constrainedBytes) : totalBytes;
}

function wholePages(bytes: number): number {
  return Math.floor(bytes / pageBytes) * pageBytes;
}
