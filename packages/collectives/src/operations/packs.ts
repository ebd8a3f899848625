import { checkOptions, option } from '@shardwise/core/base';
import { ConfigError, type DType, type ProcessGroup, type TypedBytes } from '@shardwise/core/spec';
import { checkBuffer } from '../call/checks.ts';
import { requireGroup } from '../call/require-group.ts';

/**
 * The length in bytes up to which a buffer is copied into a message with others. It was measured with 32
 * buffers on 2 ranks: over TCP a call of its own costs 36 microseconds more than the copies at 16 KiB, and as
 * much at 128 KiB. Between threads single calls are cheaper from 16 KiB on (from 4 KiB where buffers are
 * shared), by 4 microseconds there.
 */
const PACKED_BYTES = 16 * 1024;

const list = option.required(option.listOf(option.object<TypedBytes>('a buffer')));
const listRules = { buffers: list };
const pairRules = { inputs: list, outputs: list };

/** The buffers that share one call: either the short ones of a dtype, or a single longer one. */
export interface Pack<Item> {
  readonly dtype: DType;
  readonly items: readonly Item[];
}

/**
 * Packs items by their buffers. The packs are the same on every rank whose items have the same sizes and
 * dtypes.
 */
export function packsOf<Item>(
  items: readonly Item[],
  bufferOf: (item: Item) => TypedBytes,
): readonly Pack<Item>[] {
  const together = new Map<DType, Item[]>();
  const packs: Pack<Item>[] = [];
  for (const item of items) {
    const { bytes, dtype } = bufferOf(item);
    const known = together.get(dtype);
    if (bytes.byteLength > PACKED_BYTES) {
      packs.push({ dtype, items: [item] });
    } else if (known !== undefined) {
      known.push(item);
    } else {
      const first = [item];
      together.set(dtype, first);
      packs.push({ dtype, items: first });
    }
  }
  return packs;
}

export interface Pair {
  readonly input: TypedBytes;
  readonly output: TypedBytes;
}

/**
 * Pairs inputs with their outputs. Throws ConfigError if `group` is no group, if a list is none, and if the lists have
 * different lengths.
 */
export function pairsOf(
  operation: string,
  group: ProcessGroup,
  inputs: readonly TypedBytes[],
  outputs: readonly TypedBytes[],
): readonly Pair[] {
  requireGroup(operation, group);
  checkOptions(operation, { inputs, outputs }, pairRules);
  if (inputs.length !== outputs.length) {
    throw new ConfigError(
      {
        asked: `${operation} of ${inputs.length} inputs`,
        found: `there are ${outputs.length} outputs`,
        todo: 'Pass one output for each input',
      },
      { operation, inputs: inputs.length, outputs: outputs.length },
    );
  }
  return inputs.flatMap((input, index) => {
    const output = outputs[index];
    return output === undefined ? [] : [{ input, output }];
  });
}

/** Checks the group, and each buffer as a separate call would. */
export function checkAll(
  operation: string,
  group: ProcessGroup,
  buffers: readonly TypedBytes[],
): void {
  requireGroup(operation, group);
  checkOptions(operation, { buffers }, listRules);
  for (const [index, buffer] of buffers.entries()) {
    checkBuffer(operation, `buffer ${index}`, buffer);
  }
}
