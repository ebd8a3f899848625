import type { GgufBlockName } from '@shardwise/core/spec';
import type { Assembler } from '../assembler.ts';
import { type Memory, type Vector, xmm, ymm } from '../operands.ts';
import type { BlockTails } from './emit-block-tails.ts';

/** Where the bytes of eight lanes' blocks are. */
export interface BlockPlaces {
  /** Writes code for each lane. `at` is the memory at a byte of its block. */
  readonly each: (read: (lane: number, at: (byteOffset: number) => Memory) => void) => void;
  /** Asks for the byte of the lane that is read, a panel ahead. Afterwards, nothing of the lane can be read. */
  readonly ahead: (byteOffset: number) => void;
  /** Transposes 16 bytes of each block, of which `scales` then gives one of all lanes. Changes the first nine vectors. */
  readonly transposeScales: (byteOffset: number) => void;
  readonly scales: (index: number) => Memory;
}

/** The 32 bytes of a constant. */
type ByteAt = (index: number) => number;

interface BlockWriter {
  /** Constants of 32 bytes in ymm15, ymm14 and so on. */
  readonly constants: readonly ByteAt[];
  /** Writes code that decodes a block of eight lanes. It keeps ymm12 to ymm15 from the constants on. */
  readonly emit: (code: Assembler, places: BlockPlaces, tails: BlockTails) => void;
}

export function constantsOf(byteAt: ByteAt): number[] {
  const bytes = Uint8Array.from({ length: 32 }, (_, index) => byteAt(index));
  return [...new Int32Array(bytes.buffer)];
}

const always =
  (byte: number): ByteAt =>
  () =>
    byte;
const LOW_HALF = always(0x0f);
/** The fifth bit of a number, and what is subtracted from numbers of five bits. */
const FIFTH = always(0x10);
/** Takes byte j / 8 of four for byte j, of which `ownBit` is the bit of j. */
const byteOfBit: ByteAt = (index) => index >> 3;
const ownBit: ByteAt = (index) => 1 << (index & 7);

const [first, second, third, fourth] = [ymm(15), ymm(14), ymm(13), ymm(12)];
const [factor, addend, spare] = [ymm(10), ymm(11), ymm(9)];

/** How blocks of each format are decoded, as ggml-quants.c defines them. d and m are numbers of f16. */
export const blockWriters: Readonly<Record<GgufBlockName, BlockWriter>> = {
  Q4_0: {
    constants: [LOW_HALF, always(8)],
    emit: (code, places, { signed }) => {
      emitHalves(code, places, 0, factor);
      code.binary('vmovups', addend, factor);
      places.each((lane, at) => {
        emitHalfBytes(code, ymm(lane), at(2));
        code.ternary('vpsubb', ymm(lane), ymm(lane), second);
        places.ahead(0);
      });
      code.call(signed);
    },
  },
  Q4_1: {
    constants: [LOW_HALF],
    emit: (code, places, { unsigned }) => {
      emitHalves(code, places, 0, factor);
      emitHalves(code, places, 2, addend);
      places.each((lane, at) => {
        emitHalfBytes(code, ymm(lane), at(4));
        places.ahead(0);
      });
      code.call(unsigned);
    },
  },
  Q5_0: {
    constants: [LOW_HALF, FIFTH, byteOfBit, ownBit],
    emit: (code, places, { signed }) => {
      emitHalves(code, places, 0, factor);
      code.binary('vmovups', addend, factor);
      places.each((lane, at) => {
        emitHalfBytes(code, ymm(lane), at(6));
        emitFifthBits(code, ymm(lane), at(2));
        code.ternary('vpsubb', ymm(lane), ymm(lane), second);
        places.ahead(0);
      });
      code.call(signed);
    },
  },
  Q5_1: {
    constants: [LOW_HALF, FIFTH, byteOfBit, ownBit],
    emit: (code, places, { unsigned }) => {
      emitHalves(code, places, 0, factor);
      emitHalves(code, places, 2, addend);
      places.each((lane, at) => {
        emitHalfBytes(code, ymm(lane), at(8));
        emitFifthBits(code, ymm(lane), at(4));
        places.ahead(0);
      });
      code.call(unsigned);
    },
  },
  Q8_0: {
    constants: [],
    emit: (code, places, { signed }) => {
      emitHalves(code, places, 0, factor);
      code.binary('vmovups', addend, factor);
      places.each((lane, at) => {
        code.binary('vmovups', ymm(lane), at(2));
        places.ahead(0);
      });
      code.call(signed);
    },
  },
  Q4_K: {
    constants: [LOW_HALF],
    emit: (code, places, { unsigned }) => {
      emitPairsOfScales(code, places);
      for (let part = 0; part < 8; part++) {
        places.each((lane, at) => {
          emitPart(code, ymm(lane), at(16 + 32 * (part >> 1)), part & 1);
          if (part % 4 === 0) places.ahead(part * 16);
        });
        emitFactors(code, places, part);
        code.call(unsigned);
      }
    },
  },
  Q5_K: {
    constants: [LOW_HALF, FIFTH],
    emit: (code, places, { unsigned }) => {
      emitPairsOfScales(code, places);
      for (let part = 0; part < 8; part++) {
        places.each((lane, at) => {
          emitPart(code, ymm(lane), at(48 + 32 * (part >> 1)), part & 1);
          emitUpperBits(code, ymm(lane), at(16), part - 4, second);
          if (part % 3 === 0) places.ahead(part * 21);
        });
        emitFactors(code, places, part);
        code.call(unsigned);
      }
    },
  },
  Q6_K: {
    constants: [LOW_HALF, always(0x30), always(32)],
    emit: (code, places, { signed }) => {
      emitHalves(code, places, 208, fourth);
      places.transposeScales(192);
      for (let part = 0; part < 8; part++) {
        const [half, quarter] = [part >> 2, part & 3];
        places.each((lane, at) => {
          emitPart(code, ymm(lane), at(64 * half + 32 * (quarter & 1)), quarter >> 1);
          emitUpperBits(code, ymm(lane), at(128 + 32 * half), 2 * quarter - 4, second);
          code.ternary('vpsubb', ymm(lane), ymm(lane), third);
          if (part % 2 === 0) places.ahead(part * 26);
        });
        for (const [index, scale] of [factor, addend].entries()) {
          code.binary('vpmovsxbd', scale, places.scales(2 * part + index));
          code.binary('vcvtdq2ps', scale, scale);
          code.ternary('vmulps', scale, scale, fourth);
        }
        code.call(signed);
      }
    },
  },
};

/** Loads a number of f16 of each lane. */
function emitHalves(code: Assembler, places: BlockPlaces, byteOffset: number, to: Vector): void {
  const halves = xmm(to.index);
  places.each((lane, at) => code.ternaryWith('vpinsrw', halves, halves, at(byteOffset), lane));
  code.binary('vcvtph2ps', to, halves);
}

/** Loads the low halves of 16 bytes, and behind them the high ones. */
function emitHalfBytes(code: Assembler, to: Vector, from: Memory): void {
  const [low, high] = [xmm(to.index), xmm(spare.index)];
  code.binary('vmovups', low, from);
  code.shift('vpsrld', high, low, 4);
  code.ternaryWith('vinsertf128', to, to, high, 1);
  code.ternary('vandps', to, to, first);
}

/** Adds the fifth bits of 32 numbers, which are the bits of four bytes. */
function emitFifthBits(code: Assembler, to: Vector, from: Memory): void {
  code.binary('vbroadcastss', spare, from);
  code.ternary('vpshufb', spare, spare, third);
  code.ternary('vandps', spare, spare, fourth);
  code.ternary('vpcmpeqb', spare, spare, fourth);
  code.ternary('vandps', spare, spare, second);
  code.ternary('vorps', to, to, spare);
}

/** Loads the low halves of 32 bytes, or the high ones. */
function emitPart(code: Assembler, to: Vector, from: Memory, half: number): void {
  code.binary('vmovups', to, from);
  if (half === 1) code.shift('vpsrld', to, to, 4);
  code.ternary('vandps', to, to, first);
}

/** Adds bits of 32 bytes, of which the mask has the places in the numbers: `shift` places lower than in the bytes. */
function emitUpperBits(
  code: Assembler,
  to: Vector,
  from: Memory,
  shift: number,
  mask: Vector,
): void {
  code.binary('vmovups', spare, from);
  if (shift > 0) code.shift('vpsrld', spare, spare, shift);
  if (shift < 0) code.shift('vpslld', spare, spare, -shift);
  code.ternary('vandps', spare, spare, mask);
  code.ternary('vorps', to, to, spare);
}

const [blockFactor, blockAddend] = [ymm(12), ymm(13)];

/** Loads d and -m of blocks with twelve bytes of scales, and transposes the scales. */
function emitPairsOfScales(code: Assembler, places: BlockPlaces): void {
  places.transposeScales(0);
  emitHalves(code, places, 0, blockFactor);
  emitHalves(code, places, 2, blockAddend);
  code.ternary('vpcmpeqd', spare, spare, spare);
  code.shift('vpslld', spare, spare, 31);
  code.ternary('vxorps', blockAddend, blockAddend, spare);
}

/** Computes d s and -m t for 32 elements. Of s and t, twelve bytes have eight pairs of 6 bits. */
function emitFactors(code: Assembler, places: BlockPlaces, part: number): void {
  for (const [index, target] of [factor, addend].entries()) {
    const own = places.scales(4 + 4 * index + (part & 3));
    code.binary('vpmovzxbd', target, own);
    if (part < 4) {
      // The other two bits belong to a later pair.
      code.shift('vpslld', target, target, 26);
      code.shift('vpsrld', target, target, 26);
    } else {
      code.shift('vpsrld', target, target, 6);
      code.shift('vpslld', target, target, 4);
      code.binary('vpmovzxbd', spare, places.scales(12 + (part & 3)));
      if (index === 0) code.shift('vpslld', spare, spare, 28);
      code.shift('vpsrld', spare, spare, index === 0 ? 28 : 4);
      code.ternary('vorps', target, target, spare);
    }
    code.binary('vcvtdq2ps', target, target);
    code.ternary('vmulps', target, target, index === 0 ? blockFactor : blockAddend);
  }
}
