import type { Assembler } from '../assembler.ts';
import {
  at,
  indexed,
  type Memory,
  r10,
  r11,
  r12,
  r15,
  r8,
  r9,
  rax,
  rbx,
  rcx,
  rdi,
  rdx,
  type Register,
  rsi,
  rsp,
  type Vector,
} from '../operands.ts';
import { fieldOffset, taskFlags } from '../../products/task-layout.ts';
import type { Vectors } from './vectors/vectors.ts';
import type { Label } from '../../label.ts';
import type { ProductKind } from '../../../program/work/product-kinds.ts';
import { aheadLine, aheadStep } from './emit-multiply.ts';
import { taskField } from './task-fields.ts';
import { emitTransposedColumns } from './emit-transposed-columns.ts';
import { TILE_TURN_UNITS } from '../../products/panels.ts';
import type { TileSource } from '../../products/product-code.ts';

/**
 * What a kernel computes. It multiplies f32 'elements'; 'pairs' of bf16, with an instruction for pairs; or the same
 * pairs as 'floats'. The last two give the same bits.
 */
export interface TileOptions {
  readonly kind: ProductKind;
  readonly by: 'elements' | 'pairs' | 'floats';
  readonly source: TileSource;
  readonly rows: number;
}

/**
 * Writes the kernel that multiplies a panel of `rows` rows by a panel of columns. rcx is the number of units of k.
 * Every sum is computed in the order of k. f32 uses one fused multiply-add for each k. bf16 uses `vdpbf16ps`, which
 * adds two products, the second one first, and both takes and gives 0 for denormal values; or two fused multiply-adds
 * that do the same.
 *
 * rsi and rdx: the panels, or the first row or column of the operand that is read where it lies. rdi: the result. r8: bytes between rows of the
 * result. r9: the addend. r10: bytes between rows of the addend. r15: the task. r11, or masks: which columns exist.
 * Changes rax, rcx and all of these addresses.
 */
export function emitTile(code: Assembler, vectors: Vectors, options: TileOptions): Label {
  const start = code.entry();
  new TileWriter(code, vectors, options).write();
  code.ret();
  return start;
}

/** How the kernel addresses rows. */
interface Rows {
  /** The bytes from one unit of k to the next. */
  readonly unitBytes: number;
  /** The registers that are advanced from unit to unit. */
  readonly bases: readonly Register[];
  place(row: number): Memory;
}

/** Every third row has its address in a register. rax has the distance from row to row. */
const operandBases = [rsi, r9, r10, r11, r12] as const;
const rowsOfOperand = (rows: number): Rows => ({
  unitBytes: 4,
  bases: operandBases.slice(0, Math.ceil(rows / 3)),
  place: (row) => {
    const base = operandBases[Math.floor(row / 3)] ?? rsi;
    const behind = row % 3;
    return behind === 0 ? at(base) : indexed(base, rax, behind === 1 ? 1 : 2);
  },
});

/** A control word of floats: denormal values are 0, and exceptions have no effect. */
const WITHOUT_DENORMALS = 0x9fc0;
/** Memory below the stack pointer. Nothing else writes it, because kernels call no other code. */
const [usualState, ownState] = [at(rsp, -8), at(rsp, -16)];

class TileWriter {
  readonly #code: Assembler;
  readonly #vectors: Vectors;
  readonly #options: TileOptions;
  /** The two vectors of sums of each row. */
  readonly #sums: readonly (readonly [Vector, Vector])[];
  /**
   * The four vectors behind the sums of all rows: two of columns, and two for elements of rows. These two are used in
   * turn, so that a load need not wait for the row before.
   */
  readonly #columns: readonly [Vector, Vector];
  readonly #elements: readonly [Vector, Vector];

  constructor(code: Assembler, vectors: Vectors, options: TileOptions) {
    this.#code = code;
    this.#vectors = vectors;
    this.#options = options;
    const pair = (index: number): readonly [Vector, Vector] => [
      vectors.vector(index),
      vectors.vector(index + 1),
    ];
    this.#sums = Array.from({ length: options.rows }, (_, row) => pair(2 * row));
    this.#columns = pair(2 * vectors.tile.rows);
    this.#elements = pair(2 * vectors.tile.rows + 2);
  }

  write(): void {
    if (this.#options.source === 'transposed') this.#writeTransposedColumns();
    else this.#writeSums();
    this.#writeScale();
    this.#writeAddend();
    if (this.#options.kind === 'bf16 to f32') this.#writeRounding();
    this.#writeStores();
  }

  #writeSums(): void {
    const { source } = this.#options;
    this.#writeStart(this.#sums.flat(), (load) => {
      for (const row of this.#sums) {
        this.#eachHalf(row, load);
        this.#code.add(rax, r8);
      }
    });
    this.#enterState();
    if (source === 'operand') this.#writeLoopOverOperand();
    else {
      if (source === 'columns') this.#code.mov(rax, taskField('multiply', 'rightStrideBytes'));
      this.#writeLoop(this.#packedRows());
    }
    this.#leaveState();
  }

  #writeTransposedColumns(): void {
    const { rows, by } = this.#options;
    emitTransposedColumns(this.#code, {
      rows,
      by: by === 'elements' ? by : 'floats',
      sums: this.#sums,
      panelRows: this.#vectors.tile.rows,
      begin: (sums, half) =>
        this.#writeStart(sums, (load) => {
          for (const sum of sums) {
            load(sum, half, half * this.#vectors.byteLength);
            this.#code.add(rax, r8);
          }
        }),
      enter: () => this.#enterState(),
      leave: () => this.#leaveState(),
    });
  }

  /** Sums begin with 0, or with the values of the result, which `loadAll` loads. rax: the first row of the result. */
  #writeStart(
    sums: readonly Vector[],
    loadAll: (load: (sum: Vector, half: 0 | 1, byteOffset: number) => void) => void,
  ): void {
    const code = this.#code;
    const addsToResult = this.#options.kind !== 'bf16 to bf16';
    const [begun, fromResult] = [code.label(), code.label()];
    if (addsToResult) this.#skipUnless('addsToResult', fromResult, true);
    for (const sum of sums) this.#vectors.zero(sum);
    if (addsToResult) {
      code.jump(begun);
      code.place(fromResult);
      this.#vectors.prepareColumns();
      code.mov(rax, rdi);
      loadAll((sum, half, offset) => this.#vectors.loadColumns(sum, at(rax, offset), half));
    }
    code.place(begun);
  }

  /** Has the processor take denormal values for 0, if the instruction for pairs does so. */
  #enterState(): void {
    if (this.#options.by !== 'floats') return;
    const code = this.#code;
    code.stmxcsr(usualState);
    code.mov(rax, WITHOUT_DENORMALS);
    code.store32(ownState, rax);
    code.ldmxcsr(ownState);
  }

  #leaveState(): void {
    if (this.#options.by === 'floats') this.#code.ldmxcsr(usualState);
  }

  #packedRows(): Rows {
    const { rows } = this.#vectors.tile;
    return { unitBytes: 4 * rows, bases: [rsi], place: (row) => at(rsi, 4 * row) };
  }

  #writeLoopOverOperand(): void {
    const code = this.#code;
    const rows = rowsOfOperand(this.#options.rows);
    const [, ...others] = rows.bases;
    // These registers have other contents, such as r11, which says which columns exist.
    for (const register of others) code.push(register);
    code.mov(rax, taskField('multiply', 'leftStrideBytes'));
    let before: Register = rsi;
    for (const base of others) {
      code.lea(base, indexed(before, rax, 2));
      code.add(base, rax);
      before = base;
    }
    this.#writeLoop(rows, others.length);
    for (const register of others.toReversed()) code.pop(register);
  }

  /** `pushed` is how many registers are on the stack. */
  #writeLoop(source: Rows, pushed = 0): void {
    const code = this.#code;
    // Behind what is pushed and the address of the caller are the caller's places.
    const behind = 8 * (pushed + 2);
    if (this.#readsAhead) {
      code.push(rbx);
      code.mov(rbx, at(rsp, behind + aheadLine));
    }
    const steps = this.#options.by === 'floats' ? 2 : 1;
    const advance = (units: number): void => {
      for (const base of source.bases) code.add(base, steps * units * source.unitBytes);
      if (!this.#stepsThroughOperand) code.add(rdx, steps * units * this.#columnsBytes);
    };
    const [loop, rest, single, done] = [code.label(), code.label(), code.label(), code.label()];
    const turn = TILE_TURN_UNITS / steps;
    code.sub(rcx, turn);
    code.jumpIf('less', rest);
    code.entry(loop);
    for (let step = 0; step < TILE_TURN_UNITS; step++) this.#writeStep(source, step);
    if (this.#readsAhead) {
      for (let line = 0; line < this.#columnsBytes; line += 64)
        code.prefetch(at(rbx, line), 'second');
      code.add(rbx, at(rsp, behind + aheadStep));
    }
    advance(turn);
    code.sub(rcx, turn);
    code.jumpIf('notLess', loop);
    code.place(rest);
    code.add(rcx, turn);
    code.jumpIf('equal', done);
    code.place(single);
    for (let step = 0; step < steps; step++) this.#writeStep(source, step);
    advance(1);
    code.sub(rcx, 1);
    code.jumpIf('notEqual', single);
    code.place(done);
    if (this.#readsAhead) code.pop(rbx);
  }

  /** Whether it asks for lines of what is packed next while it multiplies, so that packing need not wait for memory. */
  get #readsAhead(): boolean {
    return this.#options.by === 'elements' && !this.#stepsThroughOperand;
  }

  /** Whether each step moves rdx to the next unit of the operand, whose distance is in rax. */
  get #stepsThroughOperand(): boolean {
    return this.#options.source === 'columns';
  }

  get #columnsBytes(): number {
    return 4 * this.#vectors.tile.columns;
  }

  #writeStep(source: Rows, step: number): void {
    const code = this.#code;
    const isFloat = this.#options.by !== 'pairs';
    const distance = this.#stepsThroughOperand ? 0 : this.#columnsBytes;
    const [low, high] = this.#columns;
    this.#eachHalf(this.#columns, (column, _, offset) =>
      code.binary('vmovups', column, at(rdx, step * distance + offset)),
    );
    if (this.#stepsThroughOperand) code.add(rdx, rax);
    for (const [row, [lowSum, highSum]] of this.#sums.entries()) {
      const element = this.#elements[row % 2] ?? low;
      const place = source.place(row);
      const displacement = place.displacement + step * source.unitBytes;
      code.binary(isFloat ? 'vbroadcastss' : 'vpbroadcastd', element, { ...place, displacement });
      const multiplyAdd = isFloat ? 'vfmadd231ps' : 'vdpbf16ps';
      code.ternary(multiplyAdd, lowSum, element, low);
      code.ternary(multiplyAdd, highSum, element, high);
    }
  }

  #writeScale(): void {
    const code = this.#code;
    const unscaled = code.label();
    this.#skipUnless('scales', unscaled);
    const [scale] = this.#columns;
    code.binary('vbroadcastss', scale, at(r15, fieldOffset('multiply', 'scale')));
    for (const sum of this.#sums.flat()) code.ternary('vmulps', sum, sum, scale);
    code.place(unscaled);
  }

  #writeAddend(): void {
    const code = this.#code;
    const none = code.label();
    this.#skipUnless('addsAddend', none);
    this.#vectors.prepareColumns();
    const [addend] = this.#columns;
    for (const row of this.#sums) {
      this.#eachHalf(row, (sum, half, offset) => {
        this.#vectors.loadColumns(addend, at(r9, offset), half);
        code.ternary('vaddps', sum, sum, addend);
      });
      code.add(r9, r10);
    }
    code.place(none);
  }

  /** Rounds the sums to bf16, as f32 values. */
  #writeRounding(): void {
    const code = this.#code;
    const none = code.label();
    this.#skipUnless('rounds', none);
    for (const sum of this.#sums.flat()) {
      this.#vectors.narrow(sum, this.#columns[0].index);
      code.shift('vpslld', sum, sum, 16);
    }
    code.place(none);
  }

  #writeStores(): void {
    const vectors = this.#vectors;
    vectors.eachStore((isWhole) => {
      for (const row of this.#sums) {
        if (this.#options.kind === 'bf16 to bf16') vectors.storeNarrowColumns(rdi, row, isWhole);
        else {
          this.#eachHalf(row, (sum, half, offset) =>
            vectors.storeColumns(at(rdi, offset), sum, half, isWhole),
          );
        }
        this.#code.add(rdi, r8);
      }
    });
  }

  /** Visits the two vectors of a row, with the byte offsets of their columns. */
  #eachHalf(
    [low, high]: readonly [Vector, Vector],
    visit: (vector: Vector, half: 0 | 1, byteOffset: number) => void,
  ): void {
    visit(low, 0, 0);
    visit(high, 1, this.#vectors.byteLength);
  }

  /** Writes a jump to `target` for tasks without the flag, or with `inverted` for tasks with it. */
  #skipUnless(flag: keyof typeof taskFlags, target: Label, inverted = false): void {
    const code = this.#code;
    code.mov(rax, at(r15, fieldOffset('multiply', 'flags')));
    code.and(rax, taskFlags[flag]);
    code.jumpIf(inverted ? 'notEqual' : 'equal', target);
  }
}
