import koffi from 'koffi';
import { Assembler } from './assembler.ts';
import {
  codeAt,
  type ExecutableMemory,
  NoCodeError,
  placeCode,
} from '../../memory/executable-memory.ts';
import { type InstructionSet, instructionSets } from './instruction-sets.ts';
import { at, rax, rbx, rcx, rdi, rdx, rsi } from './operands.ts';

/**
 * 'AVX-512' has vectors of 64 bytes. It stands for the parts F, BW, DQ and VL, and for BMI2. 'AVX2' has vectors of 32
 * bytes. It stands for AVX2, FMA and F16C.
 */
export type VectorInstructions = 'AVX-512' | 'AVX2';

/** Which of the instructions that we use this processor has and its system allows. */
export interface ProcessorFeatures {
  /** The widest vector instructions. Null if the processor has none that we use. */
  readonly vectors: VectorInstructions | null;
  /** Whether the processor has AVX512-BF16. */
  readonly bf16: boolean;
  /** Whether the processor has AMX-BF16, and the system has let this process use it. */
  readonly tiles: boolean;
}

/** The features that are left without the instruction sets that are newer than `newest`. */
export function upTo(newest: InstructionSet, features: ProcessorFeatures): ProcessorFeatures {
  const isLeft = (set: InstructionSet): boolean =>
    instructionSets.indexOf(set) >= instructionSets.indexOf(newest);
  const { vectors } = features;
  return {
    vectors: vectors === 'AVX-512' && !isLeft('AVX-512') ? 'AVX2' : vectors,
    bf16: features.bf16 && isLeft('AVX512-BF16'),
    tiles: features.tiles && isLeft('AMX-BF16'),
  };
}

/** Throws NoCodeError if this processor cannot run our routines. */
export function requireVectors({ vectors }: ProcessorFeatures): VectorInstructions {
  if (vectors === null) {
    throw new NoCodeError('the processor has neither AVX-512 nor AVX2, or its system uses neither');
  }
  return vectors;
}

/** Bits of the registers that the system saves: the registers of SSE and AVX. */
const AVX_SAVED_BY_SYSTEM = 0x6;
/** The registers of SSE, AVX and the three kinds of AVX-512. */
const AVX512_SAVED_BY_SYSTEM = 0xe6;
/** The registers of tiles. */
const TILES_SAVED_BY_SYSTEM = 0x6_0000;

/** Asks the processor what it has. Throws an error that says why if machine code cannot run. */
export function processorFeatures(memory?: ExecutableMemory): ProcessorFeatures {
  const code = new Assembler();
  // The operands are the two numbers of a question, and then places for four registers of the answer.
  code.push(rbx);
  code.mov(rsi, rdi);
  code.mov(rax, at(rsi));
  code.mov(rcx, at(rsi, 8));
  code.cpuid();
  for (const [index, register] of [rax, rbx, rcx, rdx].entries()) {
    code.store(at(rsi, 16 + 8 * index), register);
  }
  code.pop(rbx);
  code.ret();
  const xgetbv = code.entry();
  code.xor(rcx, rcx);
  code.xgetbv();
  code.store(at(rdi), rax);
  code.ret();
  const start = placeCode(code.finish(), memory);

  const ask = (leaf: number, part = 0): readonly number[] => {
    const operands = new BigUint64Array(new ArrayBuffer(48));
    operands.set([BigInt(leaf), BigInt(part)]);
    codeAt(start)(operands);
    return [...operands.subarray(2)].map((register) => Number(register & 0xffff_ffffn));
  };
  const [lastLeaf = 0] = ask(0);
  const [, , usesOfSystem = 0] = ask(1);
  if (lastLeaf < 7 || ![12, 27, 29].every((bit) => hasBit(usesOfSystem, bit))) return none;
  const saved = new BigUint64Array(new ArrayBuffer(8));
  codeAt(start + BigInt(xgetbv.byteOffset ?? 0))(saved);
  const hasSaved = (registers: number): boolean =>
    (Number(saved[0] ?? 0n) & registers) === registers;
  const [parts = 0, features = 0, , others = 0] = ask(7);
  const [newer = 0] = parts > 0 ? ask(7, 1) : [];
  if (!hasSaved(AVX_SAVED_BY_SYSTEM) || !hasBit(features, 5)) return none;
  const isWide =
    hasSaved(AVX512_SAVED_BY_SYSTEM) && [8, 16, 17, 30, 31].every((bit) => hasBit(features, bit));
  const bf16 = isWide && hasBit(newer, 5);
  const hasTiles = hasSaved(TILES_SAVED_BY_SYSTEM) && [22, 24].every((bit) => hasBit(others, bit));
  const vectors = isWide ? 'AVX-512' : 'AVX2';
  return { vectors, bf16, tiles: bf16 && hasTiles && letsUseTiles() };
}

const none: ProcessorFeatures = { vectors: null, bf16: false, tiles: false };

const SYS_ARCH_PRCTL = 158;
const ARCH_REQ_XCOMP_PERM = 0x1023;
const XFEATURE_XTILEDATA = 18;

/**
 * Asks Linux for the registers of tiles. They take 8 KiB of each thread's state, so a process only gets them if it
 * asks.
 */
function letsUseTiles(): boolean {
  const syscall = koffi.load(null).func('long syscall(long number, ...)');
  return syscall(SYS_ARCH_PRCTL, 'long', ARCH_REQ_XCOMP_PERM, 'long', XFEATURE_XTILEDATA) === 0;
}

function hasBit(bits: number, index: number): boolean {
  return ((bits >>> index) & 1) === 1;
}

/**
 * How values of bf16 are multiplied: with tiles, with an instruction that adds two products, or with two f32
 * multiply-adds. The last two give the same bits.
 */
export type HalfWay = 'tiles' | 'pairs' | 'floats';

export function halfWayOf({ bf16, tiles }: ProcessorFeatures): HalfWay {
  return tiles ? 'tiles' : bf16 ? 'pairs' : 'floats';
}
