import { describe, expect, test } from 'vitest';
import {
  firstStageShare,
  flopsPerToken,
  layerActivationBytes,
  modelNames,
  namedModel,
  parameterCount,
  type Recompute,
  statesOnRank,
  sumOfStates,
  transformer,
  type TransformerDescription,
} from '@shardwise/planner';
import { readRows } from '../../../test/measured/rows.ts';

const GIB = 2 ** 30;

describe('the activations and states of Korthikanti et al. 2022, figures 1 and 7', () => {
  // t 8; p, v, rows of a microbatch; GiB of a rank as published.
  const published = [
    { model: 'gpt:22b', p: 1, v: 1, rows: 4, states: 45.5625, none: 59.25, both: 9.5625 },
    { model: 'gpt:175b', p: 8, v: 3, rows: 1, states: 45.5625, none: 66.84375, both: 12.3515625 },
    {
      model: 'gpt:530b',
      p: 35,
      v: 3,
      rows: 1,
      states: 31.640625,
      none: 114.0234375,
      both: 23.076171875,
    },
    { model: 'gpt:1t', p: 64, v: 1, rows: 1, states: 32.958984375, none: 131.25, both: 26.5625 },
  ];

  function ofLayer(
    model: TransformerDescription,
    rows: number,
    recompute: Recompute,
    sp: boolean,
  ): number {
    return layerActivationBytes(model, {
      rows,
      sequence: 2048,
      tensorParallel: 8,
      sequenceParallel: sp,
      contextParallel: 1,
      recompute,
      flashAttention: false,
      elementBytes: 2,
    });
  }

  test.each(published)(
    'are those of $model, to the last digit',
    ({ model: name, p, v, rows, ...gib }) => {
      const model = namedModel(name);
      const share = model.layers * firstStageShare(p, v);
      expect((ofLayer(model, rows, 'none', false) * share) / GIB).toBe(gib.none);
      expect((ofLayer(model, rows, 'selective', true) * share) / GIB).toBe(gib.both);
      // The figure counts 12 L h² weights, with 18 bytes each.
      const weights = (12 * model.layers * model.hidden ** 2) / (8 * p);
      const states = statesOnRank(weights, 'mixed, f32 gradients', 0, 1);
      expect(sumOfStates(states) / GIB).toBe(gib.states);
    },
  );

  // Percent of what is kept without sequence parallelism and without recomputation, as the figure shows them.
  test.each([
    { model: 'gpt:22b', sp: 66.84, selective: 49.42, both: 16.18, full: 7.64 },
    { model: 'gpt:175b', sp: 62.04, selective: 56.53, both: 18.49, full: 8.71 },
    { model: 'gpt:530b', sp: 58.31, selective: 62.04, both: 20.27, full: 9.42 },
  ])(
    'are shares of each other as figure 7 shows them for $model',
    ({ model: name, ...percent }) => {
      const model = namedModel(name);
      const of = (recompute: Recompute, sp: boolean): number =>
        (100 * ofLayer(model, 1, recompute, sp)) / ofLayer(model, 1, 'none', false);
      // The percentages were read from bars, to 0.15 of a point.
      expect(Math.abs(of('none', true) - percent.sp)).toBeLessThan(0.15);
      expect(Math.abs(of('selective', false) - percent.selective)).toBeLessThan(0.15);
      expect(Math.abs(of('selective', true) - percent.both)).toBeLessThan(0.15);
      expect(Math.abs(of('full', false) - percent.full)).toBeLessThan(0.15);
    },
  );
});

describe('parameters', () => {
  test.each(readRows('sc21.json'))(
    'of the GPT of $billions billion are those of Narayanan et al. 2021, table 1',
    ({ billions, hidden, layers, heads }) => {
      const [h, l] = [Number(hidden), Number(layers)];
      const model = transformer({
        name: 'sc21',
        hidden: h,
        layers: l,
        heads: Number(heads),
        vocabulary: 51_200,
        sequence: 2048,
        finalNorm: false,
        biases: true,
      });
      const formula = 12 * l * h ** 2 * (1 + 13 / (12 * h) + (51_200 + 2048) / (12 * l * h));
      expect(parameterCount(model)).toBe(Math.round(formula));
      expect(Math.abs(parameterCount(model) / 1e9 - Number(billions))).toBeLessThan(0.06);
    },
  );

  test('of BLOOM and its rejected sizes are the labels of its log', () => {
    const labels = [
      [14_336, 70, 176.3],
      [14_336, 72, 181.2],
      [13_824, 78, 182.4],
      [13_824, 80, 187],
      [13_824, 84, 196.1],
      [13_312, 82, 177.8],
      [13_312, 94, 203.3],
      [12_288, 96, 177.1],
      [12_288, 100, 184.3],
      [12_288, 106, 195.2],
      [14_336, 82, 205.9],
    ] as const;
    for (const [hidden, layers, billions] of labels) {
      const vocabulary = 250_680;
      const model = transformer({
        name: 'bloom',
        hidden,
        layers,
        heads: 64,
        vocabulary,
        sequence: 2048,
        headSize: 1,
      });
      const { embedding, finalNorm } = model.parameters;
      // The width of heads does not change the number, which the log gives without it.
      const whole = embedding + finalNorm + layers * (12 * hidden ** 2 + 13 * hidden);
      expect((whole / 1e9).toFixed(1)).toBe(billions.toFixed(1));
    }
  });

  test('of the models of the playbook are those that it gives', () => {
    const sizes = { '1b': 1.342, '3b': 3.574, '8b': 8.858, '80b': 79.99 };
    for (const [size, billions] of Object.entries(sizes)) {
      const counted = parameterCount(namedModel(`playbook:${size}`)) / 1e9;
      // The playbook gives four digits, not all of them rounded.
      expect(Math.abs(counted - billions)).toBeLessThan(0.006);
    }
  });

  test('of every named model can be counted', () => {
    for (const name of modelNames) expect(parameterCount(namedModel(name))).toBeGreaterThan(1e8);
  });
});

describe('floating-point operations', () => {
  test('of MPT give the MFU of its table, within 0.23 %, as tokens per second are whole numbers', () => {
    const peaks: Readonly<Record<string, number>> = {
      'a100-40': 312e12,
      a100: 312e12,
      h100: 989e12,
      'h100 f8': 1979e12,
    };
    for (const row of readRows('mpt.json')) {
      const sequence = Number(row.sequence);
      const { name, hidden, layers, heads } = namedModel(`mpt:${row.model}`);
      const model = transformer({ name, hidden, layers, heads, vocabulary: 50_368, sequence });
      const exact =
        12 * layers * hidden ** 2 +
        13 * layers * hidden +
        2 * hidden +
        (50_368 + sequence) * hidden;
      expect(parameterCount(model)).toBe(exact);
      const flops = flopsPerToken(model, { counts: 'parameters and attention' });
      const mfu =
        (100 * flops * Number(row.tokensPerSecondPerDevice)) / (peaks[String(row.device)] ?? 0);
      expect(Math.abs(mfu / Number(row.mfuPercent) - 1)).toBeLessThan(0.0023);
    }
  });

  // GFLOP for a token: 1000 × teraflops / (tokens/s) of NVIDIA's tables.
  const gpt = (hidden: number, layers: number, heads: number): TransformerDescription =>
    transformer({ name: 'gpt', hidden, layers, heads, vocabulary: 51_200, sequence: 2048 });

  test.each([
    ['llama2:7b', 46.08],
    ['llama2:13b', 87.18],
    ['llama2:70b', 444.5],
    ['llama3:8b', 57.91],
    ['llama3:70b', 481.4],
  ])('of %s are those of NeMo, which counts all of attention', (name, gigaflop) => {
    expect(Math.abs(flopsPerToken(namedModel(name)) / 1e9 / gigaflop - 1)).toBeLessThan(0.001);
  });

  test.each([
    [gpt(4096, 24, 32), 32.67],
    [gpt(6144, 44, 48), 128.12],
    [gpt(12_288, 96, 96), 1076.4],
  ])('of GPT-3 are those of NeMo', (model, gigaflop) => {
    expect(Math.abs(flopsPerToken(model) / 1e9 / gigaflop - 1)).toBeLessThan(0.001);
  });

  test.each([
    ['llama3:8b', 51.47, 8192],
    ['llama3:70b', 449.2, 8192],
    ['llama3:405b', 2523.9, 8192],
    ['llama3:70b', 433.1, 4096],
  ])(
    'of %s are those of Megatron-Bridge, which counts half of attention',
    (name, gigaflop, sequence) => {
      const flops = flopsPerToken(namedModel(name), { attention: 'causal', sequence });
      expect(Math.abs(flops / 1e9 / gigaflop - 1)).toBeLessThan(0.004);
    },
  );

  test('of a step with selective recomputation are those of Korthikanti et al. 2022', () => {
    // 72 B L s h² (1 + s/(6h) + V/(12Lh))
    const { layers: L, hidden: h } = namedModel('gpt:175b');
    const [B, s, V] = [64, 2048, 51_200];
    const published = 72 * B * L * s * h ** 2 * (1 + s / (6 * h) + V / (12 * L * h));
    expect(flopsPerToken(namedModel('gpt:175b')) * B * s).toBeCloseTo(published, -10);
  });
});

describe('the theoretical bars of the ultra-scale playbook', () => {
  test('are those of Llama 3 8B and 70B, in GiB', () => {
    const bars = ['8b', '70b'].map((size) => {
      const elements = parameterCount(namedModel(`llama3:${size}`));
      const { parameter, gradient } = statesOnRank(elements, 'mixed', 0, 1);
      return [parameter, gradient, 8 * elements].map((bytes) => bytes / GIB);
    });
    expect(bars[0]).toEqual([14.957, 14.957, 59.828].map((each) => expect.closeTo(each, 2)));
    expect(bars[1]).toEqual([131.5, 131.5, 526].map((each) => expect.closeTo(each, 0)));
  });

  test('count activations as those of a GPT with attention by blocks', () => {
    const gib = (hidden: number, layers: number, t: number, sp: boolean, cp: number): number => {
      const model = transformer({
        name: 'bar',
        hidden,
        layers,
        heads: 32,
        vocabulary: 1,
        sequence: 1024,
      });
      const shape = {
        rows: 1,
        sequence: 1024,
        tensorParallel: t,
        sequenceParallel: sp,
        contextParallel: cp,
      };
      const rest = { recompute: 'none', flashAttention: true, elementBytes: 2 } as const;
      return (layers * layerActivationBytes(model, { ...shape, ...rest })) / GIB;
    };
    expect(gib(4096, 32, 1, false, 1)).toBe(4.25);
    expect(gib(4096, 32, 2, false, 1)).toBe(2.75);
    expect(gib(4096, 32, 2, false, 4)).toBe(0.6875);
    expect(gib(8192, 80, 8, false, 1)).toBe(8.125);
    expect(gib(8192, 80, 16, false, 1)).toBe(7.1875);
    expect(gib(8192, 80, 8, true, 1)).toBe(2.65625);
    expect(gib(8192, 80, 16, true, 1)).toBe(1.328125);
  });
});

describe('ZeRO, table 1', () => {
  // Rajbhandari et al. 2020: GB of each rank for 7.5, 128 and 1000 billion parameters.
  const table = [
    [1, [120, 120, 120], [2048, 2048, 2048], [16_000, 16_000, 16_000]],
    [4, [52.5, 41.3, 30], [896, 704, 512], [7000, 5500, 4000]],
    [16, [35.6, 21.6, 7.5], [608, 368, 128], [4750, 2875, 1000]],
    [64, [31.4, 16.6, 1.88], [536, 284, 32], [4187, 2218, 250]],
    [256, [30.4, 15.4, 0.47], [518, 263, 8], [4046, 2054, 62.5]],
    [1024, [30.1, 15.1, 0.12], [513, 257, 2], [4011, 2013, 15.6]],
  ] as const;

  test.each(table)('is that of %i ranks', (ranks, ...models) => {
    for (const [index, elements] of [7.5e9, 128e9, 1e12].entries()) {
      const gigabytes = ([1, 2, 3] as const).map(
        (stage) => sumOfStates(statesOnRank(elements, 'mixed', stage, ranks)) / 1e9,
      );
      // The paper truncates the last column, and rounds the others.
      for (const [stage, printed] of (models[index] ?? []).entries()) {
        const decimals = String(printed).split('.')[1]?.length ?? 0;
        expect(Math.abs((gigabytes[stage] ?? 0) - printed)).toBeLessThan(10 ** -decimals);
      }
    }
  });

  test('GPT-3 in f32 takes 700 GB for its parameters alone', () => {
    expect(statesOnRank(175e9, 'f32', 0, 1).parameter).toBe(700e9);
  });
});

describe('sizes that contradict each other', () => {
  const sizes = { name: 'wrong', layers: 2, hidden: 10, heads: 3, vocabulary: 10, sequence: 4 };
  test('are one clear error each', () => {
    expect(() => transformer(sizes)).toThrow(
      'the sizes of the transformer wrong: 3 heads, which do not divide the hidden size 10. Give sizes that fit each other',
    );
    expect(() => transformer({ ...sizes, heads: 5, keyValueHeads: 2 })).toThrow(
      '2 heads of keys and values',
    );
    expect(() => transformer({ ...sizes, heads: 5, experts: { count: 2, active: 3 } })).toThrow(
      '3 active experts of 2',
    );
    expect(() => namedModel('gpt:9000b')).toThrow("the model 'gpt:9000b': no model of this name");
  });
});
