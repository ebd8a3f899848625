import { fromData, type Tensor } from '@shardwise/core';
import { type ForwardCall, generate, LlamaForCausalLM } from '@shardwise/models';
import { compose, contextParallel, ddp, parallelize } from '@shardwise/strategies';
import { onRanks } from '@shardwise/testing/node';
import { expect, test } from 'vitest';

const [rows, length] = [2, 8];

function integers(...shape: readonly [number, number]): Tensor {
  return fromData(new Int32Array(shape[0] * shape[1]).fill(1), shape, 'i32');
}

/** What each of two ranks throws for such a call of a model whose rows are cut. */
function errorsOf(call: () => ForwardCall): Promise<readonly string[]> {
  return onRanks(
    2,
    async () => {
      const model = new LlamaForCausalLM({
        vocabSize: 4,
        hiddenSize: 4,
        intermediateSize: 4,
        numHiddenLayers: 1,
        numAttentionHeads: 2,
        numKeyValueHeads: 2,
      });
      const parallel = await parallelize(model, compose(contextParallel(), ddp({ axis: 'cp' })));
      try {
        await parallel.forward(integers(rows, length), call()).data();
      } catch (error) {
        return String(error);
      }
      return 'none';
    },
    { axes: [{ name: 'cp', size: 2 }] },
  );
}

const calls: Readonly<Record<string, readonly [() => ForwardCall, RegExp]>> = {
  'position ids of another length': [
    () => ({ positionIds: integers(rows, 6) }),
    /positionIds of shape \[2, 6\].*8 tokens/,
  ],
  'position ids of a part': [
    () => ({ positionIds: integers(rows, 4) }),
    /positionIds of shape \[2, 4\].*8 tokens/,
  ],
  'labels of another length': [
    () => ({ labels: integers(rows, 9) }),
    /labels of shape \[2, 9\].*8 tokens/,
  ],
  'documents of another length': [
    () => ({ documents: integers(rows, 4) }),
    /documents of shape \[2, 4\].*8 tokens/,
  ],
  'a mask of a part': [
    () => ({ attentionMask: integers(rows, 4) }),
    /attentionMask of shape \[2, 4\].*8 tokens/,
  ],
  'a cache': [
    () => ({ cache: { attend: (_, query) => query } }),
    /a cache under contextParallel.*Generate with the model itself/,
  ],
};

test.each(Object.keys(calls))('refuses %s on all ranks', async (name) => {
  const [call, says] = calls[name] ?? expect.fail(name);
  const errors = await errorsOf(call);
  expect(errors).toHaveLength(2);
  for (const error of errors) expect(error).toMatch(says);
});

test('refuses to generate with rows that are cut, on all ranks', async () => {
  const errors = await onRanks(
    2,
    async () => {
      const model = new LlamaForCausalLM({
        vocabSize: 4,
        hiddenSize: 4,
        intermediateSize: 4,
        numHiddenLayers: 1,
        numAttentionHeads: 2,
        numKeyValueHeads: 2,
      });
      const parallel = await parallelize(model, compose(contextParallel(), ddp({ axis: 'cp' })));
      try {
        await generate(parallel, [[1, 2, 3]], { maxNewTokens: 2 });
      } catch (error) {
        return String(error);
      }
      return 'none';
    },
    { axes: [{ name: 'cp', size: 2 }] },
  );
  for (const error of errors)
    expect(error).toMatch(/contextParallel.*Generate with the model itself/);
});
