import { describe, expect, test } from 'vitest';
import { cpu } from '@shardwise/backend-cpu';
import { fromData, nn, optim, setRank, zeros } from '@shardwise/core';
import {
  describeConfig,
  describeModule,
  flopsPerToken,
  flopsPerRow,
  namedModel,
  oneDevice,
  parameterCount,
  plannedMemory,
} from '@shardwise/planner';

describe('a config.json of Hugging Face', () => {
  const llama = {
    architectures: ['LlamaForCausalLM'],
    model_type: 'llama',
    vocab_size: 32_000,
    hidden_size: 4096,
    intermediate_size: 11_008,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    num_key_value_heads: 32,
    hidden_act: 'silu',
    max_position_embeddings: 4096,
    rms_norm_eps: 1e-5,
    tie_word_embeddings: false,
  };

  test('of Llama 2 7B describes the named model, without computing a value', () => {
    const described = describeConfig(llama);
    const named = namedModel('llama2:7b');
    expect({ ...described, name: named.name }).toEqual(named);
    expect(parameterCount(described)).toBe(6_738_415_616);
    expect(flopsPerToken(described)).toBe(flopsPerToken(named));
  });

  test('of GPT-2 has the parameters of the published checkpoint', () => {
    const gpt2 = describeConfig({
      architectures: ['GPT2LMHeadModel'],
      model_type: 'gpt2',
      n_embd: 768,
      n_layer: 12,
      n_head: 12,
      n_positions: 1024,
      vocab_size: 50_257,
    });
    expect(parameterCount(gpt2)).toBe(124_439_808);
    expect(gpt2).toMatchObject({ layers: 12, hidden: 768, heads: 12, vocabulary: 50_257 });
  });

  test('of Mixtral counts the experts of each layer, and the active ones for a token', () => {
    const mixtral = describeConfig({
      ...llama,
      architectures: ['MixtralForCausalLM'],
      model_type: 'mixtral',
      hidden_size: 64,
      intermediate_size: 224,
      num_attention_heads: 8,
      num_key_value_heads: 2,
      num_local_experts: 8,
      num_experts_per_tok: 2,
    });
    // Attention, router and norms of a layer, its experts, both embeddings and the last norm.
    const layer = 64 * 64 * 2 + 2 * 64 * 16 + 64 * 8 + 2 * 64;
    const sizes = { layer, experts: 8 * 3 * 64 * 224, finalNorm: 64, head: 32_000 * 64 };
    expect(mixtral.parameters).toEqual({ ...sizes, embedding: 32_000 * 64 });
    expect(mixtral.experts).toEqual({ count: 8, active: 2 });
  });

  test('of an unknown architecture is an error that names the known ones', () => {
    expect(() => describeConfig({ model_type: 'mamba', architectures: ['Mamba'] })).toThrow(
      /a model of model_type "mamba"/,
    );
  });

  test('of a model that is no transformer is an error that says what to do', () => {
    const resnet = { model_type: 'resnet', architectures: ['ResNetForImageClassification'] };
    expect(() => describeConfig(resnet)).toThrow('describeModule(model, inputs, { loss })');
  });
});

describe('any module', () => {
  class Two extends nn.Module {
    first = new nn.Linear(8, 16);
    second = new nn.Linear(16, 4);
    forward(x: ReturnType<typeof zeros>): ReturnType<typeof zeros> {
      return this.second.forward(this.first.forward(x).relu()).square().mean();
    }
  }

  test('is described by the graph of a training pass', () => {
    const described = describeModule(new Two(), [zeros([32, 8])]);
    expect(parameterCount(described)).toBe(8 * 16 + 16 + 16 * 4 + 4);
    // Forward and weight gradients of both products, and the input gradient of the second.
    expect(flopsPerRow(described)).toBe(2 * (2 * 8 * 16 + 3 * 16 * 4));
    expect(described.modules.map(({ path }) => path)).toEqual(['first', 'second']);
  });

  test('calls as many kernels as its graph has operations, and not those of a transformer for each module', () => {
    const calls = describeModule(new Two(), [zeros([32, 8])]).modules.map((each) => each.calls);
    // A product and a bias, with their gradients, and what follows up to the next module.
    for (const count of calls) {
      expect(count).toBeGreaterThan(4);
      expect(count).toBeLessThan(30);
    }
  });

  test('needs the memory of its inputs, too: within 10 % of what the allocator counts', async () => {
    const layers = (): nn.Sequential =>
      new nn.Sequential(new nn.Linear(784, 128), new nn.ReLU(), new nn.Linear(128, 10));
    const { crossEntropy } = nn.functional;
    const [rows, labels] = [256, new Int32Array(256)];
    const inputs = [zeros([rows, 784]), zeros([rows], 'i32')] as const;
    const model = describeModule(layers(), inputs, { loss: crossEntropy });
    const layout = { ...oneDevice, rows, precision: 'f32' } as const;
    const efficiency = { products: 1, memory: 1, links: 1, allocator: 1, runtimeBytes: 0 };
    const { totalBytes } = plannedMemory(
      model,
      layout,
      { batch: rows, sequence: 1 },
      { efficiency },
    );
    const device = await cpu({ byteLength: 1 << 25 });
    setRank({ device });
    const trained = layers();
    const optimizer = new optim.AdamW(trained.parameters());
    for (let step = 0; step < 2; step++) {
      optimizer.zeroGrad();
      const x = fromData(new Float32Array(rows * 784).fill(step), [rows, 784], 'f32');
      const loss = crossEntropy(trained.forward(x), fromData(labels, [rows], 'i32'));
      loss.backward();
      await optimizer.step();
      await loss.item();
    }
    expect(Math.abs(totalBytes / device.usage().peakBytes - 1)).toBeLessThan(0.1);
  });

  test('without a loss is an error', () => {
    expect(() => describeModule(new nn.Linear(2, 2), [zeros([4, 2])])).toThrow(/loss/);
  });
});
