import { ggufBlockFormats } from '@shardwise/core/spec';
import { Assembler } from '../assembler.ts';
import { codeAt, type ExecutableMemory, placeCode } from '../../../memory/executable-memory.ts';
import { emitCalls } from '../emit-calls.ts';
import { at, r15, rax, rbp, rdi } from '../operands.ts';
import { emitBlockPacking } from './emit-block-panels.ts';
import { emitBlockTails } from './emit-block-tails.ts';
import { emitCrew } from './emit-crew.ts';
import { emitMultiply } from './emit-multiply.ts';
import { emitPacking } from './emit-packing.ts';
import { emitRepeat } from './emit-repeat.ts';
import { emitTile, type TileOptions } from './emit-tile.ts';
import { emitTiles } from './emit-tiles.ts';
import { AMX_ROWS, AMX_UNITS, type PanelShape, unitBytesOf } from '../../products/panels.ts';
import { TASK_BYTES } from '../../products/task-layout.ts';
import { Avx2Vectors } from './vectors/avx2-vectors.ts';
import { Avx512Vectors } from './vectors/avx512-vectors.ts';
import type { Vectors } from './vectors/vectors.ts';
import type { Label } from '../../label.ts';
import type { Address } from '../../../memory/host-address.ts';
import { type ProcessorFeatures, requireVectors, halfWayOf, type HalfWay } from '../processor.ts';
import { operandAddress } from './task-fields.ts';
import type { Panels, ProductCode, Side, TileSource } from '../../products/product-code.ts';
import { callWords } from '../../../lanes/loop-code.ts';

/** Assembles the routines for this processor. Throws an error that says why if they cannot run. */
export function createProductCode(
  features: ProcessorFeatures,
  memory?: ExecutableMemory,
): ProductCode {
  const code = new Assembler();
  const vectors = vectorsOf(code, features);
  const half = halfWayOf(features);
  const run = emitRun(code);
  const callLoop = emitCallLoop(code);
  const repeat = emitRepeat(code);
  const crew = emitCrew(code, run);
  const labels = new Map<string, Label>();
  for (const packing of ['f32', 'bf16', 'f32 as bf16'] as const) {
    const forms = packing === 'f32' ? floatForms : halfForms[half];
    for (const transposes of [false, true]) {
      for (const side of ['left', 'right'] as const) {
        const form = forms[side];
        const lanes = lanesOf(side, form, vectors);
        const label = emitPacking(code, vectors, packing, { lanes, form }, transposes);
        labels.set(`${side} ${packing} ${transposes}`, label);
      }
    }
  }
  const tails = emitBlockTails(code, vectors.tile.columns);
  for (const { name } of Object.values(ggufBlockFormats)) {
    const label = emitBlockPacking(code, name, vectors.tile.columns, tails);
    labels.set(`right ${name} true`, label);
  }
  for (const kind of ['f32 to f32', 'bf16 to f32', 'bf16 to bf16'] as const) {
    if (half === 'tiles' && kind !== 'f32 to f32') {
      labels.set(`multiply ${kind}`, emitTiles(code, kind));
      continue;
    }
    const by = kind === 'f32 to f32' ? 'elements' : half === 'pairs' ? 'pairs' : 'floats';
    for (const source of sourcesOf[by]) {
      // Squares of eight columns and four units are transposed in vectors of 32 bytes.
      if (source === 'transposed' && vectors.lanes !== 8) continue;
      for (let rows = 1; rows <= vectors.tile.rows; rows++) {
        const label = emitTile(code, vectors, { kind, by, source, rows });
        labels.set(`tile ${kind} ${source} ${rows}`, label);
      }
    }
    labels.set(`multiply ${kind}`, emitMultiply(code, vectors, kind));
  }
  const start = placeCode(code.finish(), memory);
  const addressOf = (label: Label | undefined): Address => {
    if (label?.byteOffset === undefined) throw new RangeError('no such routine');
    return start + BigInt(label.byteOffset);
  };
  const panelsOf = (forms: SideForms, unitMultiple: number): Panels => ({
    rows: lanesOf('left', forms.left, vectors),
    columns: lanesOf('right', forms.right, vectors),
    unitMultiple,
    unitBytes: unitBytesOf(forms.left),
  });
  const ofFloats = panelsOf(floatForms, 1);
  const ofHalves = panelsOf(halfForms[half], half === 'tiles' ? AMX_UNITS : 1);
  return {
    run: codeAt(addressOf(run)),
    crew: { work: codeAt(addressOf(crew.work)), help: codeAt(addressOf(crew.help)) },
    callLoop: addressOf(callLoop),
    repeat: addressOf(repeat),
    readsAhead: true,
    decodesBlocks: true,
    packing: (side, packing, transposes) =>
      addressOf(labels.get(`${side} ${packing} ${transposes}`)),
    multiply: (kind) => addressOf(labels.get(`multiply ${kind}`)),
    tile: (kind, source, rows) => {
      const label = labels.get(`tile ${kind} ${source} ${rows}`);
      return label && addressOf(label);
    },
    panels: (kind) => (kind === 'f32 to f32' ? ofFloats : ofHalves),
  };
}

function vectorsOf(code: Assembler, features: ProcessorFeatures): Vectors {
  const isWide = requireVectors(features) === 'AVX-512';
  return isWide ? new Avx512Vectors(code, features.bf16) : new Avx2Vectors(code);
}

/** Where kernels of each kind find their operands. */
const sourcesOf: Readonly<Record<TileOptions['by'], readonly TileSource[]>> = {
  elements: ['packed', 'operand', 'columns', 'transposed'],
  pairs: ['packed', 'operand'],
  floats: ['packed', 'transposed'],
};

/** The forms of the panels of both sides. */
type SideForms = Readonly<Record<Side, PanelShape['form']>>;

const floatForms: SideForms = { left: 'elements', right: 'elements' };
const halfForms: Readonly<Record<HalfWay, SideForms>> = {
  tiles: { left: 'tiles', right: 'pairs' },
  pairs: { left: 'pairs', right: 'pairs' },
  floats: { left: 'floats', right: 'floats' },
};

function lanesOf(side: Side, form: PanelShape['form'], { tile }: Vectors): number {
  if (side === 'right') return tile.columns;
  return form === 'tiles' ? AMX_ROWS : tile.rows;
}

/** Writes the code that calls the routine of each task in turn, up to a task whose routine is 0. rdi: the frame. */
function emitRun(code: Assembler): Label {
  const start = code.entry();
  emitCalls(code, {
    begin: () => {
      code.mov(rbp, rdi);
      code.mov(r15, operandAddress('tasks'));
    },
    routine: at(r15),
    byteLength: TASK_BYTES,
  });
  return start;
}

/** Writes the routine that calls a loop. Loops take their call in rbp, and do not change r15. */
function emitCallLoop(code: Assembler): Label {
  const start = code.entry();
  code.push(rbp);
  code.lea(rbp, at(r15, 8));
  code.mov(rax, at(rbp, 8 * callWords.routine));
  code.call(rax);
  code.pop(rbp);
  code.ret();
  return start;
}
