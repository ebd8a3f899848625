import { LayoutError, type ParameterSpec, type Strategy } from '@shardwise/core';
import {
  colwiseParallel,
  compose,
  ddp,
  explain,
  prepareModuleOutput,
  rowwiseParallel,
  sequenceParallel,
  shard,
  tensorParallel,
  vocabParallelEmbedding,
} from '@shardwise/strategies';
import { describe, expect, it } from 'vitest';

const parameters: readonly ParameterSpec[] = [
  { name: 'embedding.weight', shape: [11, 4], dtype: 'f32', requiresGrad: false },
  { name: 'up.weight', shape: [7, 4], dtype: 'f32', requiresGrad: true },
  { name: 'up.bias', shape: [7], dtype: 'f32', requiresGrad: true },
  { name: 'scale', shape: [], dtype: 'f32', requiresGrad: true },
];

describe('explain', () => {
  it('explain says by what the ranks communicate, and why so, where it is told', () => {
    const plan = ddp().plan({ parameters }, [{ name: 'dp', size: 4 }]);
    const transport = { kind: 'shm', reason: '4 processes of one host' };
    const text = explain(plan, { transport });
    const line = '\ntransport: shm (4 processes of one host)';
    expect(text).toContain(line);
    expect(text.replace(line, '')).toBe(explain(plan));
  });

  it('explain has the steps of a plan print as JSON, by the names of their kinds', () => {
    const { steps } = ddp().plan({ parameters }, [{ name: 'dp', size: 4 }]);
    expect(JSON.parse(JSON.stringify(steps))).toEqual([
      { kind: 'distribute', axis: 'dp' },
      expect.objectContaining({ kind: 'reduce', parameters: ['scale', 'up.bias', 'up.weight'] }),
      { kind: 'broadcastBuffers', axes: ['dp'] },
    ]);
  });

  it('explain prints how a model lies on the ranks and what a step communicates', () => {
    const plan = ddp({ bucketBytes: 32 }).plan({ parameters }, [{ name: 'dp', size: 4 }]);
    expect(explain(plan)).toMatchInlineSnapshot(`
      "ddp on dp=4; batch: shard(0: dp)

      parameter         dtype  shape    layout     gradient   bytes
      embedding.weight  f32    [11, 4]  replicate  frozen     176
      up.weight         f32    [7, 4]   replicate  replicate  112
      up.bias           f32    [7]      replicate  replicate  28
      scale             f32    []       replicate  replicate  4

      when      collective  axis  of            bytes
      start     broadcast   dp    4 parameters  320
      backward  allReduce   dp    2 parameters  32
      backward  allReduce   dp    1 parameter   112

      per rank          bytes
      parameters        320
      gradients         144
      optimizer states  288
      buffers           not known
      activations       not known
      sum               752

      optimizer states: assumed to be those of Adam; give { optimizerTensors } for another optimizer
      states: 16Ψ = 16 × 36 = 576 bytes, Ψ = 36 trained elements; 176 bytes are frozen or padding"
    `);
  });

  it('explain says that one rank communicates nothing', () => {
    const plan = ddp().plan({ parameters }, [{ name: 'dp', size: 1 }]);
    expect(explain(plan)).toMatchInlineSnapshot(`
      "ddp on dp=1; batch: shard(0: dp)

      parameter         dtype  shape    layout     gradient   bytes
      embedding.weight  f32    [11, 4]  replicate  frozen     176
      up.weight         f32    [7, 4]   replicate  replicate  112
      up.bias           f32    [7]      replicate  replicate  28
      scale             f32    []       replicate  replicate  4

      no communication: every axis has one rank

      per rank          bytes
      parameters        320
      gradients         144
      optimizer states  288
      buffers           not known
      activations       not known
      sum               752

      optimizer states: assumed to be those of Adam; give { optimizerTensors } for another optimizer
      states: 16Ψ = 16 × 36 = 576 bytes, Ψ = 36 trained elements; 176 bytes are frozen or padding"
    `);
  });

  it('explain prints shards and partial sums with their axes, and their bytes per rank', () => {
    const [parameter] = parameters;
    const layout = { dims: [['dp', 'tp'], []], partial: [] };
    const gradient = { dims: [[], ['tp']], partial: ['dp'] };
    expect(
      explain({
        strategy: 'hand-made',
        axes: [
          { name: 'dp', size: 2 },
          { name: 'tp', size: 3 },
        ],
        batch: { dims: [['dp']], partial: [] },
        parameters:
          parameter === undefined
            ? []
            : [
                {
                  ...parameter,
                  requiresGrad: true,
                  parameter: layout,
                  gradient,
                  optimizer: layout,
                },
              ],
        steps: [],
      }),
    ).toMatchInlineSnapshot(`
      "hand-made on dp=2 × tp=3; batch: shard(0: dp)

      parameter         dtype  shape    layout           gradient                  bytes
      embedding.weight  f32    [11, 4]  shard(0: dp·tp)  shard(1: tp) partial(dp)  32

      no communication

      per rank          bytes
      parameters        32
      gradients         88
      optimizer states  64
      buffers           not known
      activations       not known
      sum               184

      optimizer states: assumed to be those of Adam; give { optimizerTensors } for another optimizer
      states: 184 bytes; parameters are not cut alike"
    `);
  });

  it('explain is refused a mesh without the axis', () => {
    const plan = (): unknown => ddp({ axis: 'tp' }).plan({ parameters }, [{ name: 'dp', size: 4 }]);
    expect(plan).toThrow(LayoutError);
    expect(plan).toThrow("ddp over the mesh axis 'tp': the axes dp. Name an axis of the mesh");
  });
});

describe('explain of tensor parallelism', () => {
  const spec = (name: string, ...shape: number[]): ParameterSpec => ({
    name,
    shape,
    dtype: 'f32',
    requiresGrad: true,
  });
  const block = (name: string): ParameterSpec[] => [
    spec(`${name}.norm.weight`, 4),
    spec(`${name}.up.weight`, 16, 4),
    spec(`${name}.down.weight`, 4, 16),
  ];
  const model = [spec('tokens.weight', 10, 4), ...block('blocks.0'), ...block('blocks.1')];
  const redistributions = (strategy: Strategy): string => {
    const plan = strategy.plan({ parameters: model }, [
      { name: 'dp', size: 2 },
      { name: 'tp', size: 2 },
    ]);
    const [table = ''] = /^layer[^]*?(?=\n\n)/m.exec(explain(plan)) ?? [];
    return table;
  };

  it('explain of tensor parallelism prints what each layer redistributes, in bytes of the whole activation', () => {
    const styles = {
      tokens: vocabParallelEmbedding(),
      'blocks.*.up': colwiseParallel(),
      'blocks.*.down': rowwiseParallel(),
    };
    const strategy = compose(tensorParallel(styles, { tokens: 6 }), ddp());
    expect(redistributions(strategy)).toMatchInlineSnapshot(`
      "layer          layers  activation              axis  forward    backward   bytes
      tokens         1       partial to invariant    tp    allReduce  nothing    96
      blocks.*.up    2       invariant to replicate  tp    nothing    allReduce  96
      blocks.*.down  2       partial to invariant    tp    allReduce  nothing    96"
    `);
  });

  it('explain of tensor parallelism prints the gathers and scatters of sequence parallelism, and changes around modules', () => {
    const strategy = tensorParallel(
      {
        tokens: vocabParallelEmbedding({ output: shard(1) }),
        'blocks.*.norm': sequenceParallel(),
        'blocks.*.up': colwiseParallel({ input: shard(1), gatherAgain: true }),
        'blocks.0.down': rowwiseParallel({ output: shard(1) }),
        'blocks.1.down': rowwiseParallel({ output: 'invariant' }),
        'blocks.1': prepareModuleOutput({ from: 'invariant', to: shard(-1), features: 4 }),
      },
      { tokens: 6 },
    );
    expect(redistributions(strategy)).toMatchInlineSnapshot(`
      "layer          layers  activation              axis  forward        backward                  bytes
      tokens         1       partial to shard(1)     tp    reduceScatter  allGather                 96
      blocks.*.up    2       shard(1) to replicate   tp    allGather      allGather, reduceScatter  96
      blocks.0.down  1       partial to shard(1)     tp    reduceScatter  allGather                 96
      blocks.1       1       invariant to shard(-1)  tp    nothing        allGather                 96
      blocks.1.down  1       partial to invariant    tp    allReduce      nothing                   96"
    `);
  });
});
