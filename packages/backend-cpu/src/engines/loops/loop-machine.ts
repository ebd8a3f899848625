import { Assembler } from '../../emit/x64/assembler.ts';
import {
  codeAt,
  type ExecutableMemory,
  type NativeCode,
  NoCodeError,
  placeCode,
  systemExecutableMemory,
} from '../../memory/executable-memory.ts';
import { emitCalls } from '../../emit/x64/emit-calls.ts';
import { at, r15, rbp, rdi } from '../../emit/x64/operands.ts';
import { type InstructionSet, instructionSets } from '../../emit/x64/instruction-sets.ts';
import {
  processorFeatures,
  requireVectors,
  upTo,
  type VectorInstructions,
} from '../../emit/x64/processor.ts';
import { CallList } from './call-list.ts';
import { elementwiseLoop } from '../../lanes/elementwise-loop.ts';
import { canPairRows, emitLoop } from '../../emit/x64/loops/emit-loop.ts';
import { emitRowCopy } from '../../emit/x64/loops/emit-row-copy.ts';
import { emitRowSums } from '../../emit/x64/loops/emit-row-sums.ts';
import { NoLanesError } from '../../emit/x64/loops/lane-graph.ts';
import type { LaneLoop } from '../../lanes/lane-loop.ts';
import { type LoopVectors, loopVectors } from '../../emit/x64/loops/loop-vectors.ts';
import { rowLoop } from '../../lanes/row-loop.ts';
import { addressOf, type Address } from '../../memory/host-address.ts';
import {
  type LinkedLoops,
  type LoopCall,
  type LoopCode,
  type LoopSource,
  type RoutineSource,
  callWords,
} from '../../lanes/loop-code.ts';

/** What runs fused loops and kernels that walk over rows. If it is WebAssembly, it says why. */
export type LoopMachine =
  | {
      readonly kind: 'own';
      readonly code: PlacedLoops;
      readonly instructions: VectorInstructions;
    }
  | { readonly kind: 'webassembly'; readonly reason: string };

const known = new Map<InstructionSet, LoopMachine>();

/** Finds out what runs loops, once for each thread. Machine code uses no instructions that are newer than `newest`. */
export function loopMachine(newest: InstructionSet = instructionSets[0]): LoopMachine {
  const machine = known.get(newest) ?? findLoopMachine(newest);
  known.set(newest, machine);
  return machine;
}

/**
 * Tries machine code on this processor. Warns if the code does not run or computes wrong values, although the processor
 * has all it takes.
 */
export function findLoopMachine(
  newest: InstructionSet,
  memory: ExecutableMemory = systemExecutableMemory,
  create: typeof createPlacedLoops = createPlacedLoops,
): LoopMachine {
  try {
    const features = upTo(newest, processorFeatures(memory));
    const instructions = requireVectors(features);
    const code = create(loopVectors(instructions, features.bf16), memory);
    if (isRight(code)) return { kind: 'own', code, instructions };
    return unexpected('machine code does not compute what JavaScript does');
  } catch (error) {
    if (error instanceof NoCodeError) return { kind: 'webassembly', reason: error.message };
    return unexpected(error instanceof Error ? error.message : String(error));
  }
}

/** Warns that WebAssembly runs the loops, although the processor has all that machine code takes. */
function unexpected(reason: string): Extract<LoopMachine, { kind: 'webassembly' }> {
  console.warn(`shardwise: WebAssembly runs loops over elements and rows, as ${reason}`);
  return { kind: 'webassembly', reason };
}

function createPlacedLoops(vectors: LoopVectors, memory: ExecutableMemory): PlacedLoops {
  return new PlacedLoops(vectors, memory);
}

export class PlacedLoops implements LoopCode {
  /** Carries out consecutive calls (loop-frame.ts). A call whose routine is 0 ends them. */
  readonly run: NativeCode;
  readonly #vectors: LoopVectors;
  readonly #routines = new Map<string, Address | undefined>();
  readonly #lanes = new WeakMap<LoopSource, LaneLoop>();
  readonly #memory: ExecutableMemory;
  #refusal: string | undefined;

  constructor(vectors: LoopVectors, memory: ExecutableMemory) {
    this.#vectors = vectors;
    this.#memory = memory;
    this.run = codeAt(placeCode(runCode(), memory));
  }

  get refusal(): string | undefined {
    return this.#refusal;
  }

  lanes(source: LoopSource): LaneLoop {
    const loop =
      this.#lanes.get(source) ??
      (source.kind === 'rows' ? rowLoop(source.program) : elementwiseLoop(source.spec));
    this.#lanes.set(source, loop);
    return loop;
  }

  routine(key: string, build: () => LaneLoop | RoutineSource): Address | undefined {
    if (!this.#routines.has(key)) this.#routines.set(key, this.#placed(build));
    return this.#routines.get(key);
  }

  link(memory: WebAssembly.Memory, calls: readonly LoopCall[]): LinkedLoops {
    return new CallList(memory, this.run, calls);
  }

  #placed(build: () => LaneLoop | RoutineSource): Address | undefined {
    const code = written(build, this.#vectors);
    if (code === undefined || this.#refusal !== undefined) return undefined;
    try {
      return placeCode(code, this.#memory);
    } catch (error) {
      const { reason } = unexpected(error instanceof Error ? error.message : String(error));
      this.#refusal = reason;
      return undefined;
    }
  }
}

/** Writes the code of a routine. Returns undefined if only WebAssembly can run the loop. */
function written(
  build: () => LaneLoop | RoutineSource,
  vectors: LoopVectors,
): Uint8Array | undefined {
  return withLanes(() => {
    const routine = build();
    if ('kind' in routine) return codeOf((code) => emitRoutine(code, vectors, routine));
    // Two rows have more values at once than one, and there may be no place for them.
    const ofPairs = canPairRows(routine, vectors)
      ? withLanes(() => codeOf((code) => emitLoop(code, routine, vectors, 2)))
      : undefined;
    return ofPairs ?? codeOf((code) => emitLoop(code, routine, vectors, 1));
  });
}

/** Writes a kernel that is no loop. It may change all registers but rsp, rbp and r15. */
function emitRoutine(code: Assembler, vectors: LoopVectors, source: RoutineSource): void {
  if (source.kind === 'row copy') emitRowCopy(code, vectors, source.loops);
  else emitRowSums(code, vectors, source.dtype);
}

/** Returns undefined if a loop has code that cannot be written for the processor's vectors. */
function withLanes(write: () => Uint8Array): Uint8Array | undefined {
  try {
    return write();
  } catch (error) {
    if (error instanceof NoLanesError) return undefined;
    throw error;
  }
}

function codeOf(write: (code: Assembler) => void): Uint8Array {
  const code = new Assembler();
  write(code);
  return code.finish();
}

/** A function that calls the routine of each call. rdi points to the first call. */
function runCode(): Uint8Array {
  const code = new Assembler();
  emitCalls(code, {
    begin: () => code.mov(r15, rdi),
    routine: at(r15, 8 * callWords.routine),
    prepare: () => code.mov(rbp, r15),
    byteLength: at(r15, 8 * callWords.byteLength),
  });
  return code.finish();
}

/** Whether a loop over several vectors and a part of one computes the right values. */
function isRight(code: PlacedLoops): boolean {
  const routine = code.routine('what is tried first', () =>
    elementwiseLoop({
      byRows: false,
      loads: [{ dtype: 'f32', access: 'element', elementOffset: 0 }],
      steps: [
        { op: 'constant', dtype: 'f32', value: 3 },
        { op: 'mul', dtype: 'f32', inputDType: 'f32', inputs: [0, 1] },
        { op: 'relu', dtype: 'f32', inputDType: 'f32', inputs: [2] },
        { op: 'cast', dtype: 'bf16', inputDType: 'f32', inputs: [3] },
      ],
      stores: [
        { slot: 3, dtype: 'f32' },
        { slot: 4, dtype: 'bf16' },
      ],
    }),
  );
  if (routine === undefined) return false;
  // All results have an exact bf16: the upper half of their bits.
  const from = Float32Array.from({ length: 89 }, (_, index) => index - 40);
  const to = new Float32Array(from.length + 1);
  const rounded = new Uint16Array(from.length + 1);
  const byteLength = 8 * (callWords.addresses + 3);
  const call = new BigUint64Array(new ArrayBuffer(byteLength + 8));
  const places = [from, to, rounded].map(({ buffer }) => addressOf(new Uint8Array(buffer)));
  call.set([routine, BigInt(byteLength), 1n, BigInt(from.length), 0n, ...places]);
  code.run(call);
  const bits = new Uint32Array(to.buffer);
  return to.every(
    (value, index) =>
      value === Math.max(0, 3 * (from[index] ?? 0)) && rounded[index] === (bits[index] ?? 0) >>> 16,
  );
}
