import { fromData, type Tensor } from '@shardwise/core';
import type { EncoderCall } from '@shardwise/models';
import { tokens, uniform } from './formulas.ts';

// The inputs of tools/golden-encoders.py.

const [rows, length, vocabulary, labels] = [4, 12, 48, 3] as const;

/** The label of each row. */
export const rowLabels: readonly number[] = [0, 2, 1, 2];

/** Whether a place of two rows is padding. */
function isPadding(i: number): boolean {
  const [row, place] = [Math.floor(i / length), i % length];
  return (row === 1 && place >= 9) || (row === 3 && place >= 5);
}

async function wholeNumbers(name: string): Promise<Int32Array> {
  return Int32Array.from(await tokens(name, [rows, length]).data(), Number);
}

function integers(values: Int32Array): Tensor {
  return fromData(values, [rows, length], 'i32');
}

/** Rows of text of which two end with the token `pad`. Labels are those of a masked language model. */
export async function textOf(pad: number): Promise<{
  inputs: Tensor;
  call: Required<Pick<EncoderCall, 'attentionMask' | 'tokenTypeIds' | 'labels'>>;
}> {
  const ids = (await wholeNumbers('ids')).map((id, i) =>
    isPadding(i) ? pad : 5 + (id % (vocabulary - 5)),
  );
  return {
    inputs: integers(ids),
    call: {
      attentionMask: integers(ids.map((_, i) => (isPadding(i) ? 0 : 1))),
      tokenTypeIds: integers((await wholeNumbers('types')).map((value) => value % 2)),
      labels: integers(ids.map((id, i) => ((i % length) % 3 === 0 && !isPadding(i) ? id : -100))),
    },
  };
}

/** A label for each token. */
export async function tokenLabels(): Promise<Tensor> {
  const each = await wholeNumbers('labels');
  return integers(each.map((value, i) => (isPadding(i) ? -100 : value % labels)));
}

/** Shape: -> [rows, 3, size, size]. */
export function images(size: number): Tensor {
  const values = uniform('pixels', rows * 3 * size * size).map((value) => 2 * value);
  return fromData(values, [rows, 3, size, size], 'f32');
}
