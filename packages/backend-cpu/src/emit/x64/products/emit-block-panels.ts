import type { Assembler } from '../assembler.ts';
import {
  at,
  indexed,
  type Memory,
  r10,
  r11,
  r12,
  r13,
  r14,
  r8,
  r9,
  rax,
  rbp,
  rbx,
  rcx,
  rdi,
  rdx,
  rsi,
  rsp,
  type Vector,
  xmm,
  ymm,
} from '../operands.ts';
import type { Label } from '../../label.ts';
import { ggufBlockFormats, type GgufBlockName } from '@shardwise/core/spec';
import { operandOffset } from '../../products/task-layout.ts';
import { taskField } from './task-fields.ts';
import { type BlockTails, GROUP_LANES, NUMBERS } from './emit-block-tails.ts';
import { emitTransposedBytes } from './emit-transposed-bytes.ts';
import { type BlockPlaces, blockWriters, constantsOf } from './emit-blocks.ts';

/** The lanes' places, what `emit-transposed-bytes` needs, and the bytes of 8 lanes with the scales of a block. */
const SCRATCH_BYTES = NUMBERS * GROUP_LANES + 16 * GROUP_LANES;

/**
 * Writes the routine that packs columns of a weight in blocks: panels of rows of the weight, decoded to f32, the elements of
 * all lanes of one unit of k behind each other. Eight lanes are decoded at once.
 */
export function emitBlockPacking(
  code: Assembler,
  name: GgufBlockName,
  panelLanes: number,
  tails: BlockTails,
): Label {
  const { elements, bytes } = ggufBlockFormats[name];
  const constants = code.label();
  const start = code.entry();
  const tableBytes = 8 * panelLanes;
  code.sub(rsp, tableBytes + SCRATCH_BYTES);
  // r12: the source of the first panel. r13: the place where it is packed. r14: the panels that are left.
  code.mov(rax, taskField('pack', 'operand'));
  code.mov(r12, indexed(rbp, rax));
  code.add(r12, taskField('pack', 'byteOffset'));
  code.mov(r13, at(rbp, operandOffset('packed')));
  code.add(r13, taskField('pack', 'packedOffset'));
  code.mov(r14, taskField('pack', 'panels'));
  code.mov(r9, taskField('pack', 'panelStepBytes'));
  code.lea(r8, at(rsp, tableBytes));
  const writer = blockWriters[name];
  code.addressOf(rax, constants);
  writer.constants.forEach((_, index) =>
    code.binary('vmovups', ymm(15 - index), at(rax, 32 * index)),
  );

  const [nextPanel, whole, nextGroup, nextBlock] = [
    code.label(),
    code.label(),
    code.label(),
    code.label(),
  ];
  code.place(nextPanel);
  code.mov(rbx, panelLanes);
  code.cmp(r14, 1);
  code.jumpIf('greater', whole);
  code.mov(rbx, taskField('pack', 'lastLanes'));
  code.place(whole);
  emitTable(code, panelLanes);
  // r10: the places of the group's lanes. r11: where its elements go.
  code.mov(r10, rsp);
  code.mov(r11, r13);
  code.place(nextGroup);
  code.mov(rdi, r11);
  code.xor(rcx, rcx);
  code.mov(rdx, taskField('pack', 'elements'));
  code.place(nextBlock);
  writer.emit(code, placesOf(code), tails);
  code.add(rcx, bytes);
  code.sub(rdx, elements);
  code.jumpIf('greater', nextBlock);
  code.add(r10, 8 * GROUP_LANES);
  code.add(r11, 4 * GROUP_LANES);
  code.cmp(r10, r8);
  code.jumpIf('less', nextGroup);
  code.add(r12, r9);
  code.add(r13, taskField('pack', 'packedPanelBytes'));
  code.sub(r14, 1);
  code.jumpIf('notEqual', nextPanel);
  code.add(rsp, tableBytes + SCRATCH_BYTES);
  code.ret();
  code.place(constants);
  code.int32s(writer.constants.flatMap((bytesOf) => constantsOf(bytesOf)));
  return start;
}

/** Says where lanes begin. For lanes that do not exist, it repeats the last one that does. rbx: how many exist. */
function emitTable(code: Assembler, panelLanes: number): void {
  code.mov(rax, r12);
  for (let lane = 0; lane < panelLanes; lane++) {
    const isLast = code.label();
    code.store(at(rsp, 8 * lane), rax);
    code.cmp(rbx, lane + 2);
    code.jumpIf('less', isLast);
    code.add(rax, taskField('pack', 'strideBytes'));
    code.place(isLast);
  }
}

function placesOf(code: Assembler): BlockPlaces {
  return {
    each: (read) => {
      for (let lane = 0; lane < GROUP_LANES; lane++) {
        code.mov(rsi, at(r10, 8 * lane));
        read(lane, (byteOffset) => indexed(rsi, rcx, 1, byteOffset));
      }
    },
    ahead: (byteOffset) => {
      // Blocks are short stretches of many rows, which a processor does not read ahead by itself.
      code.add(rsi, r9);
      code.prefetch(indexed(rsi, rcx, 1, byteOffset));
    },
    scales: (index: number): Memory => at(r8, NUMBERS * GROUP_LANES + 8 * index),
    transposeScales: (byteOffset) => {
      const rows: Vector[] = Array.from({ length: GROUP_LANES }, (_, lane) => xmm(lane));
      for (const [lane, row] of rows.entries()) {
        code.mov(rsi, at(r10, 8 * lane));
        code.binary('vmovups', row, indexed(rsi, rcx, 1, byteOffset));
      }
      emitTransposedBytes(code, rows, xmm(8)).forEach((row, index) =>
        code.vstore('vmovups', at(r8, NUMBERS * GROUP_LANES + 16 * index), row),
      );
    },
  };
}
