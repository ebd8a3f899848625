import { deepspeed } from '@shardwise/compat';
import { describe, expect, it } from 'vitest';
import { batchSizes } from '../src/deepspeed/batch-sizes.ts';
import { elasticBatchOn } from '../src/deepspeed/elasticity.ts';

const sizes = (train?: number, micro?: number, accumulation?: number) => ({
  train_batch_size: train,
  train_micro_batch_size_per_gpu: micro,
  gradient_accumulation_steps: accumulation,
});

describe('sizes of batches on 2 ranks', () => {
  it.each([
    [sizes(32, 16, 1), { train: 32, micro: 16, accumulation: 1 }],
    [sizes(32, 8, 2), { train: 32, micro: 8, accumulation: 2 }],
    [sizes(32, 4), { train: 32, micro: 4, accumulation: 4 }],
    [sizes(32, undefined, 4), { train: 32, micro: 4, accumulation: 4 }],
    [sizes(undefined, 4, 3), { train: 24, micro: 4, accumulation: 3 }],
    [sizes(32), { train: 32, micro: 16, accumulation: 1 }],
    [sizes(undefined, 5), { train: 10, micro: 5, accumulation: 1 }],
    [sizes(undefined, undefined, 4), { train: undefined, micro: undefined, accumulation: 4 }],
  ])('%o are completed by the arithmetic of DeepSpeed', (given, expected) => {
    expect(batchSizes(given, 2)).toEqual(expected);
  });

  it.each([
    [
      sizes(33, 17, 2),
      'train_batch_size 33 and train_micro_batch_size_per_gpu 17 and gradient_accumulation_steps 2: 33 is not 17 × 2 × 2 = 68',
    ],
    [sizes(32, 18, 1), '32 is not 18 × 1 × 2 = 36'],
    [
      sizes(33, 17),
      'train_batch_size 33 and train_micro_batch_size_per_gpu 17: 33 is no multiple of 17 × 2 = 34',
    ],
    [
      sizes(32, 18),
      'train_batch_size 32 and train_micro_batch_size_per_gpu 18: 32 is no multiple of 18 × 2 = 36',
    ],
    [
      sizes(32, undefined, 5),
      'train_batch_size 32 and gradient_accumulation_steps 5: 32 is no multiple of 5 × 2 = 10',
    ],
    [
      sizes(33),
      'train_batch_size 33: 33 is no multiple of 2, with 2 data-parallel ranks. Write train_batch_size 32, or use another number of ranks',
    ],
  ])('%o contradict each other, and the error says which', (given, message) => {
    expect(() => batchSizes(given, 2)).toThrow(message);
  });
});

const elasticity = {
  enabled: true,
  max_train_batch_size: 10_000,
  micro_batch_sizes: [8, 12, 16, 17],
  min_gpus: 32,
  max_gpus: 1500,
  prefer_larger_batch: true,
  ignore_non_elastic_batch_info: false,
};

describe('elastic batches', () => {
  const small = { ...elasticity, min_gpus: 1, max_gpus: 10_000 };

  it('suit the numbers of GPUs that DeepSpeed computes', () => {
    expect(deepspeed.elasticBatch(elasticity)).toEqual({
      trainBatchSize: 9792,
      worldSizes: [
        32, 34, 36, 48, 51, 64, 68, 72, 96, 102, 136, 144, 153, 192, 204, 272, 288, 306, 408, 576,
        612, 816, 1224,
      ],
    });
    const [a, b, c, d] = [
      { max_train_batch_size: 2000, micro_batch_sizes: [2, 4, 6] },
      { max_train_batch_size: 32, micro_batch_sizes: [1, 2, 3, 7] },
      { max_train_batch_size: 100, micro_batch_sizes: [8, 10, 12] },
      { max_train_batch_size: 4, micro_batch_sizes: [1, 2, 3, 4] },
    ].map((sizes) => deepspeed.elasticBatch({ ...small, ...sizes }));
    expect([a?.trainBatchSize, a?.worldSizes.length]).toEqual([1680, 32]);
    expect(b).toEqual({ trainBatchSize: 24, worldSizes: [1, 2, 3, 4, 6, 8, 12, 24] });
    expect(c).toEqual({ trainBatchSize: 96, worldSizes: [1, 2, 3, 4, 6, 8, 12] });
    expect(d).toEqual({ trainBatchSize: 4, worldSizes: [1, 2, 4] });
  });

  it('have the largest micro-batch that fits', () => {
    expect(elasticBatchOn(elasticity, 64)).toEqual({ train: 9792, micro: 17 });
    const few = { ...small, max_train_batch_size: 32, micro_batch_sizes: [1, 2, 3, 7] };
    expect(elasticBatchOn(few, 4)).toEqual({ train: 24, micro: 3 });
  });

  it('are refused on a number of ranks that they do not suit', () => {
    expect(() => elasticBatchOn(elasticity, 128)).toThrow('an elastic job on 128 ranks');
  });

  it('are refused where a micro-batch is larger than a batch may be', () => {
    const wrong = { ...small, max_train_batch_size: 4, micro_batch_sizes: [8] };
    expect(() => deepspeed.elasticBatch(wrong)).toThrow('elasticity.micro_batch_sizes 8');
  });
});
