import { ArmAssembler } from '../assembler.ts';
import { stack, v, x } from '../operands.ts';
import { codeAt, type ExecutableMemory, placeCode } from '../../../memory/executable-memory.ts';
import { TASK_BYTES } from '../../products/task-layout.ts';
import { ARM_TERMS, armTile, frame, loadOperand, task } from './task.ts';
import { emitArmMultiply } from './emit-multiply.ts';
import { emitArmPacking } from './emit-packing.ts';
import { emitArmTile } from './emit-tile.ts';
import type { Label } from '../../label.ts';
import type { Address } from '../../../memory/host-address.ts';
import type { Panels, ProductCode } from '../../products/product-code.ts';
import type { ProductKind } from '../../../program/work/product-kinds.ts';

/** The code of the product routines for AArch64, and the labels where they begin, by name. */
export interface ArmProducts {
  readonly bytes: Uint8Array;
  readonly run: Label;
  readonly labels: ReadonlyMap<string, Label>;
}

const kinds: readonly ProductKind[] = ['f32 to f32', 'bf16 to f32', 'bf16 to bf16'];

/** Writes the routines for NEON and BFMMLA. This works on every processor, but only one with both can run them. */
export function writeArmProducts(): ArmProducts {
  const code = new ArmAssembler();
  const labels = new Map<string, Label>();
  const run = emitRun(code);
  for (const packing of ['f32', 'bf16', 'f32 as bf16'] as const) {
    for (const transposes of [false, true]) {
      for (const [side, lanes] of [
        ['left', armTile.rows],
        ['right', armTile.columns],
      ] as const) {
        const label = emitArmPacking(code, { packing, lanes, transposes });
        labels.set(`${side} ${packing} ${transposes}`, label);
      }
    }
  }
  for (const kind of kinds) {
    for (const source of ['packed', 'operand'] as const) {
      const least = kind === 'f32 to f32' || source === 'packed' ? 1 : armTile.rows;
      for (let rows = least; rows <= armTile.rows; rows++) {
        labels.set(`tile ${kind} ${source} ${rows}`, emitArmTile(code, { kind, source, rows }));
      }
    }
    labels.set(`multiply ${kind}`, emitArmMultiply(code, kind));
  }
  return { bytes: code.finish(), run, labels };
}

/** How the routines expect panels. Four terms of bf16 are two units. */
export function armPanels(kind: ProductKind): Panels {
  return { ...armTile, unitMultiple: kind === 'f32 to f32' ? 1 : ARM_TERMS / 2, unitBytes: 4 };
}

/** Places the routines into executable memory. Throws an error that says why if this processor cannot run them. */
export function createArmProductCode(memory?: ExecutableMemory): ProductCode {
  const { bytes, run, labels } = writeArmProducts();
  const start = placeCode(bytes, memory, 'arm64');
  const addressOf = (label: Label | undefined): Address => {
    if (label?.byteOffset === undefined) throw new RangeError('no such routine');
    return start + BigInt(label.byteOffset);
  };
  return {
    run: codeAt(addressOf(run)),
    get callLoop(): Address {
      throw new RangeError('loops have no machine code of AArch64');
    },
    get repeat(): Address {
      throw new RangeError('attention through tables has no machine code of AArch64');
    },
    readsAhead: false,
    decodesBlocks: false,
    packing: (side, packing, transposes) =>
      addressOf(labels.get(`${side} ${packing} ${transposes}`)),
    multiply: (kind) => addressOf(labels.get(`multiply ${kind}`)),
    tile: (kind, source, rows) => {
      const label = labels.get(`tile ${kind} ${source} ${rows}`);
      return label && addressOf(label);
    },
    panels: armPanels,
  };
}

/**
 * Writes the code that calls the routine of each task in turn, up to a task whose routine is 0. x0: the frame. It saves
 * the registers that functions must not change on this platform (AAPCS64): x19 to x30 and the low halves of v8 to v15.
 */
function emitRun(code: ArmAssembler): Label {
  const start = code.place();
  const [generalPairs, vectorPairs] = [6, 4];
  const kept = (vectors: 'ldp d' | 'stp d', general: 'ldp x' | 'stp x'): void => {
    for (let pair = 0; pair < generalPairs; pair++) {
      code.movePair(general, x(19 + 2 * pair), x(20 + 2 * pair), stack, 16 * pair);
    }
    for (let pair = 0; pair < vectorPairs; pair++) {
      const place = 16 * (generalPairs + pair);
      code.movePair(vectors, v(8 + 2 * pair), v(9 + 2 * pair), stack, place);
    }
  };
  const stackBytes = 16 * (generalPairs + vectorPairs);
  const routine = x(8);
  code.sub(stack, stack, stackBytes);
  kept('stp d', 'stp x');
  code.mov(frame, x(0));
  loadOperand(code, task, 'tasks');
  const done = code.label();
  const next = code.place();
  code.move('ldr x', routine, task);
  code.jumpIfZero(routine, done);
  code.call(routine);
  code.add(task, task, TASK_BYTES);
  code.jump(next);
  code.place(done);
  kept('ldp d', 'ldp x');
  code.add(stack, stack, stackBytes);
  code.ret();
  return start;
}
