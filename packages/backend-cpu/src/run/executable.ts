import { nextTurn } from '@shardwise/core/base';
import {
  BackendError,
  type DeviceBuffer,
  type Executable,
  IndexError,
  type RunOptions,
  type Sizes,
  type Temporaries,
} from '@shardwise/core/spec';
import type { Arena } from '../memory/arena.ts';
import type { ArenaBuffer } from '../memory/arena-buffer.ts';
import type { Scratch } from '../memory/scratch.ts';
import type { WorkQueue } from './work-queue.ts';
import type { LinkedProgram } from './link.ts';
import { addressIn, RunAddresses } from './run-addresses.ts';
import type { CompiledFallbacks } from '../plan/partition/fallback-engine.ts';
import type { Copy, Locations } from '../plan/storage.ts';

/** Buffers given to `run` start at multiples of this, the size of a SIMD vector of 128 bits. */
export const BUFFER_ALIGNMENT_BYTES = 16;

/** For about how long a partition may keep the thread busy while communication is under way. */
const BUSY_MS = 0.2;

/** What all executables of one backend share. */
export interface Host {
  readonly arena: Arena;
  readonly scratch: Scratch;
  readonly queue: WorkQueue;
}

/** How many programs stay linked, each for other sizes. The least recently used one is unlinked first. */
const MAX_LINKED = 4;

export class CpuExecutable implements Executable {
  readonly #host: Host;
  readonly #locations: Locations;
  readonly #addresses: RunAddresses;
  readonly #fallbacks: CompiledFallbacks;
  readonly #link: (sizes: Sizes) => LinkedProgram;
  /** The linked programs by their sizes. The least recently used one comes first. */
  readonly #linked = new Map<string, LinkedProgram>();
  #disposed = false;

  /** `link` returns the program at the sizes of a run. `sizes` is empty if the program has no symbols. */
  constructor(
    host: Host,
    locations: Locations,
    fallbacks: CompiledFallbacks,
    link: (sizes: Sizes) => LinkedProgram,
  ) {
    this.#host = host;
    this.#locations = locations;
    this.#addresses = new RunAddresses(locations);
    this.#fallbacks = fallbacks;
    this.#link = link;
    host.scratch.reserve(locations.scratchBytes);
  }

  get temporaries(): Temporaries {
    return this.#locations.temporaries;
  }

  run(
    inputs: readonly DeviceBuffer[],
    outputs: readonly DeviceBuffer[],
    { overlap = false, sizes = [], onPart }: RunOptions = {},
  ): Promise<void> {
    try {
      if (this.#disposed) throw disposedError();
      const program = this.#programAt(sizes);
      const ownInputs = this.#own('input', inputs, program.signature.inputs);
      const ownOutputs = this.#own('output', outputs, program.signature.outputs);
      return this.#host.queue.run(() =>
        this.#execute(program, ownInputs, ownOutputs, overlap, onPart),
      );
    } catch (error) {
      return Promise.reject(error);
    }
  }

  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    void this.#host.queue.run(async () => {
      this.#host.scratch.release(this.#locations.scratchBytes);
      for (const program of this.#linked.values()) await unlink(program);
      for (const compiled of this.#fallbacks) compiled?.release();
    });
  }

  #programAt(sizes: Sizes): LinkedProgram {
    const key = sizes.join();
    const program = this.#linked.get(key) ?? this.#link(sizes);
    this.#linked.delete(key);
    this.#linked.set(key, program);
    const [oldest] = this.#linked;
    if (this.#linked.size > MAX_LINKED && oldest !== undefined) {
      this.#linked.delete(oldest[0]);
      // The queue runs this after the runs that were asked for before, so that none of them loses its program.
      void this.#host.queue.run(() => unlink(oldest[1]));
    }
    return program;
  }

  async #execute(
    { partitions, parts, storage }: LinkedProgram,
    inputs: readonly ArenaBuffer[],
    outputs: readonly ArenaBuffer[],
    overlap: boolean,
    onPart: RunOptions['onPart'],
  ): Promise<void> {
    const scratch = this.#locations.scratchBytes > 0 ? this.#host.scratch.address() : 0;
    const addressOf = this.#addresses.at(inputs, outputs, scratch);
    const copy = ({ from, to, byteLength }: Copy): void => {
      const target = addressIn(to, inputs, outputs, scratch);
      const source = addressOf(from);
      new Uint8Array(this.#host.arena.memory.buffer).copyWithin(
        target,
        source,
        source + byteLength,
      );
    };
    storage.copiesBefore.forEach(copy);
    for (const [index, partition] of partitions.entries()) {
      const start = overlap || onPart ? performance.now() : 0;
      try {
        const pending = partition.run(addressOf, overlap);
        if (pending !== undefined) await pending;
      } catch (error) {
        throw failureAt(index, storage.firstUpdate, error);
      }
      onPart?.(parts[index] ?? [], performance.now() - start);
      if (overlap && performance.now() - start > BUSY_MS) await nextTurn();
    }
    storage.copiesAfter.forEach(copy);
  }

  #own(
    role: 'input' | 'output',
    buffers: readonly DeviceBuffer[],
    byteLengths: readonly number[],
  ): ArenaBuffer[] {
    if (buffers.length !== byteLengths.length) {
      throw new BackendError(
        {
          asked: `to run a program with ${buffers.length} ${role}s`,
          found: `the program has ${byteLengths.length}`,
          todo: `Pass one buffer for each ${role}`,
        },
        { given: buffers.length, expected: byteLengths.length },
      );
    }
    return buffers.map((buffer, index) => {
      const own = this.#host.arena.own(buffer);
      checkBuffer(own, byteLengths[index] ?? 0, `${role} ${index}`);
      return own;
    });
  }
}

async function unlink({ partitions }: LinkedProgram): Promise<void> {
  for (const partition of partitions) await partition.dispose?.();
}

/** The error of a run whose partition `index` has failed. It says whether inputs may have changed. */
function failureAt(index: number, firstUpdate: number, cause: unknown): unknown {
  // A kernel that finds an index out of range says itself whether it has written anything.
  const isKnown = index === firstUpdate && cause instanceof IndexError;
  return index < firstUpdate || isKnown ? cause : halfUpdated(cause);
}

function halfUpdated(cause: unknown): BackendError {
  return new BackendError(
    {
      asked: 'to run a kernel that writes updates in place',
      found: String(cause),
      todo: 'End this rank, and start again from a checkpoint',
    },
    { updated: true },
    { cause },
  );
}

function checkBuffer(buffer: ArenaBuffer, neededBytes: number, role: string): void {
  const { byteLength, byteOffset } = buffer;
  if (byteLength !== neededBytes) {
    throw new BackendError(
      {
        asked: `to run a program with a buffer of ${byteLength} bytes as ${role}`,
        found: `the ${role} takes ${neededBytes} bytes`,
        todo: 'Pass a buffer of the size of the value',
      },
      { byteLength, neededBytes },
    );
  }
  if (byteOffset % BUFFER_ALIGNMENT_BYTES !== 0) {
    throw new BackendError(
      {
        asked: `to run a program with a buffer at byte ${byteOffset} as ${role}`,
        found: `buffers start at multiples of ${BUFFER_ALIGNMENT_BYTES} bytes`,
        todo: 'Align sub-buffers to limits.alignment',
      },
      { byteOffset, alignmentBytes: BUFFER_ALIGNMENT_BYTES },
    );
  }
}

function disposedError(): BackendError {
  return new BackendError({
    asked: 'to run a program',
    found: 'its executable has been disposed of',
    todo: 'Compile the program again',
  });
}
