import type { Assembler } from '../assembler.ts';
import { at, indexed, r12, r13, rax, rbp } from '../operands.ts';
import { emitStraightPanels } from './emit-straight-panels.ts';
import { emitTransposedPanels } from './emit-transposed-panels.ts';
import type { PanelShape } from '../../products/panels.ts';
import type { Vectors } from './vectors/vectors.ts';
import type { Label } from '../../label.ts';
import type { ElementPacking } from '../../../program/work/product-kinds.ts';
import { taskField } from './task-fields.ts';

/**
 * Writes the routine that packs panels of rows or columns. For each unit of k, the elements of all lanes lie together,
 * or in tiles. With `transposes`, the elements of a lane lie together in memory, and `strideBytes` is the distance
 * between lanes. Without it, the lanes of an element lie together, and `strideBytes` is the distance between elements.
 *
 * The routine reads nothing outside the operand. What it writes behind the last panel lies in the spare bytes.
 */
export function emitPacking(
  code: Assembler,
  vectors: Vectors,
  packing: ElementPacking,
  shape: PanelShape,
  transposes: boolean,
): Label {
  const start = code.entry();
  // r12: the source of the first panel. r13: the place where it is packed.
  code.mov(rax, taskField('pack', 'operand'));
  code.mov(r12, indexed(rbp, rax));
  code.add(r12, taskField('pack', 'byteOffset'));
  code.mov(r13, packedMemory);
  code.add(r13, taskField('pack', 'packedOffset'));
  if (transposes) emitTransposedPanels(code, vectors, packing, shape);
  else emitStraightPanels(code, vectors, packing, shape);
  code.ret();
  return start;
}

const packedMemory = at(rbp, 8 * 4);
