import { closeSync } from 'node:fs';
import { getSystemErrorName } from 'node:util';
import { ConfigError } from '@shardwise/core/spec';
import { loadKoffi } from '../native/load-koffi.ts';

/** System calls for which Node has no function. Each throws ConfigError if the kernel refuses. */
export interface LinuxCalls {
  /**
   * Makes a file in memory with `byteLength` zeros, whose length cannot change any more. Returns its
   * descriptor.
   */
  createMemoryFile(name: string, byteLength: number): number;
  /**
   * Closes a descriptor that one of these calls has made. In a worker thread, Node's own close would give a warning.
   */
  close(descriptor: number): void;
  /** Makes a pipe whose descriptors never block. */
  createPipe(): { readonly readEnd: number; readonly writeEnd: number };
  /**
   * Replaces the pages of a WebAssembly.Memory by those of the file, from its start. What they contained is
   * lost. The memory must never grow.
   */
  mapOver(memory: WebAssembly.Memory, file: number): void;
  /** Makes the kernel end this process, whatever it does, when the thread that started it ends. */
  dieWithParent(): void;
  /** Lets other threads run first that are ready to run on this core. */
  yieldCore(): void;
}

const MFD_CLOEXEC = 1;
const MFD_ALLOW_SEALING = 2;
const F_ADD_SEALS = 1033;
/**
 * F_SEAL_SEAL, F_SEAL_SHRINK and F_SEAL_GROW. Without them, processes that map a file which shrinks would be killed.
 */
const SEALS = 1 | 2 | 4;
const O_NONBLOCK_CLOEXEC = 0o4000 | 0o2000000;
const PROT_READ_WRITE = 1 | 2;
const MAP_SHARED_FIXED = 0x01 | 0x10;
const PR_SET_PDEATHSIG = 1;
const SIGKILL = 9;
const ASKED = 'Memory that processes share';

/** Throws ConfigError if this is not Linux, or if the optional package koffi cannot be loaded. */
export function linuxCalls(): LinuxCalls {
  const koffi = loadKoffi(ASKED);
  // The program itself has the C library, whatever that is called on this system.
  const library = koffi.load(null);
  const memfdCreate = library.func('int memfd_create(const char *name, unsigned int flags)');
  const ftruncate = library.func('int ftruncate(int fd, int64_t length)');
  const fcntl = library.func('int fcntl(int fd, int command, ...)');
  const pipe2 = library.func('int pipe2(void *ends, int flags)');
  const close = library.func('int close(int descriptor)');
  const prctl = library.func('int prctl(int option, ...)');
  const schedYield = library.func('int sched_yield()');
  const mmap = library.func(
    'void *mmap(void *address, size_t length, int protection, int flags, int fd, int64_t offset)',
  );
  const check = (call: string, result: unknown): number => {
    if (typeof result === 'number' && result >= 0) return result;
    throw refusedError(call, koffi.errno());
  };
  return {
    createMemoryFile: (name, byteLength) => {
      const flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
      const file = check('memfd_create', memfdCreate(name, flags));
      try {
        check(`ftruncate to ${byteLength} bytes`, ftruncate(file, byteLength));
        check('fcntl(F_ADD_SEALS)', fcntl(file, F_ADD_SEALS, 'int', SEALS));
        return file;
      } catch (error) {
        closeSync(file);
        throw error;
      }
    },
    close: (descriptor) => void check('close', close(descriptor)),
    createPipe: () => {
      // An array in a buffer of its own stays where it is during the call.
      const ends = new Int32Array(new ArrayBuffer(8));
      check('pipe2', pipe2(ends, O_NONBLOCK_CLOEXEC));
      const [readEnd = -1, writeEnd = -1] = ends;
      return { readEnd, writeEnd };
    },
    mapOver: (memory, file) => {
      const bytes = new Uint8Array(memory.buffer);
      const address = koffi.address(bytes);
      const mapped: unknown = mmap(
        address,
        bytes.byteLength,
        PROT_READ_WRITE,
        MAP_SHARED_FIXED,
        file,
        0,
      );
      if (mapped !== address)
        throw refusedError(`mmap of ${bytes.byteLength} bytes`, koffi.errno());
    },
    yieldCore: () => {
      schedYield();
    },
    dieWithParent: () => {
      check('prctl(PR_SET_PDEATHSIG)', prctl(PR_SET_PDEATHSIG, 'unsigned long', SIGKILL));
    },
  };
}

function refusedError(call: string, errno: number): ConfigError {
  return new ConfigError(
    {
      asked: ASKED,
      found: `the kernel refuses ${call} with ${getSystemErrorName(-errno)}`,
      todo: 'Raise the limits of memory and descriptors, or use another transport',
    },
    { call, errno },
  );
}

/**
 * A function that lets other threads run on this core. Undefined on other systems than Linux, and without the
 * optional package koffi.
 */
export function coreYielder(): (() => void) | undefined {
  try {
    const calls = linuxCalls();
    return () => calls.yieldCore();
  } catch {
    return undefined;
  }
}

/**
 * Makes the kernel end this process when its parent ends, even while the process computes or is blocked.
 * Returns false if this is not possible: on other systems than Linux, and without the optional package koffi.
 */
export function endWithParent(): boolean {
  const parent = process.ppid;
  try {
    linuxCalls().dieWithParent();
  } catch {
    return false;
  }
  // The parent may have ended before the kernel was told.
  if (process.ppid !== parent) process.kill(process.pid, 'SIGKILL');
  return true;
}
