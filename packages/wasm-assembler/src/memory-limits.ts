import { encodeModule } from './encode-module.ts';

/** The size of a WebAssembly page. The length of a memory is a multiple of it. */
export const pageBytes = 65_536;

/** The most bytes of a memory with 32-bit addresses: 4 GiB less one page, so that a length fits into 32 bits. */
export const narrowMemoryBytes: number = 2 ** 32 - pageBytes;

/** The most that WebAssembly's interface for JavaScript grants a memory whose addresses have 64 bits. */
const WIDE_MEMORY_BYTES = 2 ** 34;

/**
 * The share of the machine's memory that is used by default. The rest is left to other processes, and to what this
 * process needs in addition to the memory of its tensors.
 */
const DEFAULT_SHARE = 3 / 4;

/** How large a memory can be, and how large it is by default. */
export interface MemoryLimits {
  /** The most that a memory can have. */
  readonly largestBytes: number;
  /** What sets this limit, such as `this machine has 8 GiB`. */
  readonly reason: string;
  /** The default for one process. Bytes that are not written to take no memory. */
  readonly defaultBytes: number;
}

/** The facts that decide how large memories can be. */
export interface MemoryHost {
  /** The most that WebAssembly grants a memory. */
  readonly engineBytes: number;
  /** The memory of the machine, or of the container of this process. Browsers do not tell it. */
  readonly machineBytes: number | 'unknown';
  /** Whether pages that nobody has written to take no memory. */
  readonly lendsOnDemand: boolean;
}

/** How large a memory can be on a host, and how large it is by default. Default: this host. */
export function memoryLimits(host: MemoryHost = thisHost()): MemoryLimits {
  const { engineBytes, machineBytes, lendsOnDemand } = host;
  const isKnown = machineBytes !== 'unknown';
  // A memory of up to 4 GiB is always allowed, because few machines have less.
  const usableBytes = isKnown ? Math.max(machineBytes, narrowMemoryBytes) : engineBytes;
  const shareBytes = isKnown && lendsOnDemand ? machineBytes * DEFAULT_SHARE : 0;
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
    // Windows counts a memory as fully used as soon as it is made.
    lendsOnDemand: typeof process === 'undefined' || process.platform !== 'win32',
  };
}

/** The most bytes that the engine grants a memory. Browsers without 64-bit addresses have less than 4 GiB. */
function engineMemoryBytes(): number {
  const module = encodeModule(new Map(), { shared: true, width: 'wide' });
  return WebAssembly.validate(module) ? WIDE_MEMORY_BYTES : narrowMemoryBytes;
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
