import { LayoutError, nn, setRank, ShardwiseError } from '@shardwise/core';
import {
  architecture,
  architectures,
  CausalDecoder,
  GPT2LMHeadModel,
  LlamaForCausalLM,
  MixtralForCausalLM,
  modelFromConfig,
  stateName,
} from '@shardwise/models';
import { colwiseParallel, tensorParallel } from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, test } from 'vitest';

beforeEach(() => setRank({ device: interpreter() }));

const small = {
  model_type: 'llama',
  vocab_size: 8,
  hidden_size: 8,
  intermediate_size: 8,
  num_hidden_layers: 1,
  num_attention_heads: 2,
};

const sizes = {
  vocabSize: 8,
  hiddenSize: 8,
  intermediateSize: 8,
  numHiddenLayers: 1,
  numAttentionHeads: 2,
};

const build = (config: object): unknown => modelFromConfig(config, architectures);

describe('A config.json that asks for what a class does not do is an error that names the key:', () => {
  test.each([
    ['an unknown key', { clip_qkv: 8 }, "'clip_qkv' = 8"],
    ['quantised weights', { quantization_config: { bits: 4 } }, "'quantization_config'"],
    ['an activation', { hidden_act: 'relu6' }, `'hidden_act' = "relu6"`],
    [
      'a scaling',
      { rope_scaling: { rope_type: 'longrope', factor: 2 } },
      "'rope_scaling.rope_type'",
    ],
    [
      'a part of the dims',
      { rope_scaling: { partial_rotary_factor: 0.5 } },
      "'rope_scaling.partial_rotary_factor'",
    ],
    ['a key of a scaling', { rope_scaling: { long_factor: [1] } }, 'long_factor'],
    ['a scaling without its factor', { rope_scaling: { type: 'linear' } }, 'no factor'],
    ['a size of 0', { hidden_size: 0 }, "'hidden_size' = 0"],
    ['heads that do not divide', { num_key_value_heads: 3 }, 'num_key_value_heads'],
    ['another model', { model_type: 'bloom' }, 'model_type "bloom"'],
    ['another head', { architectures: ['LlamaForQuestionAnswering'] }, 'LlamaForQuestionAnswering'],
  ])('%s', (_, keys, message) => {
    expect(() => build({ ...small, ...keys })).toThrow(message);
    try {
      build({ ...small, ...keys });
    } catch (error) {
      expect(ShardwiseError.isInstance(error) && error.code).toBe('CONFIG');
    }
  });

  test('options of constructors', () => {
    expect(() => Reflect.construct(LlamaForCausalLM, [{ hidden_size: 4 }])).toThrow('hidden_size');
    expect(() => Reflect.construct(GPT2LMHeadModel, [{ nHead: 5, nEmbd: 8 }])).toThrow('n_head');
  });
});

test('Keys that change nothing are kept and written back, also unknown ones that ask for nothing.', () => {
  const config = {
    ...small,
    architectures: ['LlamaForCausalLM'],
    _name_or_path: 'somewhere',
    bos_token_id: 1,
    torch_dtype: 'bfloat16',
    label2id: { SOME_LABEL: 0 },
    new_feature: null,
    other_feature: false,
    rope_scaling: { rope_type: 'linear', factor: 2 },
  };
  const model = modelFromConfig(config, architectures);
  expect(model.configJson()).toMatchObject(config);
});

test('A key may be ignored by name.', () => {
  const config = { ...small, my_notes: 'from the last run' };
  const model = modelFromConfig(config, architectures, { ignoredKeys: ['my_notes'] });
  expect(model.configJson()).toMatchObject({ my_notes: 'from the last run' });
});

test('Names of state dicts follow from the names of members by one rule.', () => {
  expect(['qProj', 'ln_1', 'fc1', 'inputLayernorm'].map(stateName)).toEqual([
    'q_proj',
    'ln_1',
    'fc1',
    'input_layernorm',
  ]);
});

test('A list of architectures is a value that a caller extends.', () => {
  class Mine extends LlamaForCausalLM {
    static override readonly architecture: string = 'MineForCausalLM';
  }
  const model = modelFromConfig({ ...small, architectures: ['MineForCausalLM'] }, [
    ...architectures,
    architecture(Mine),
  ]);
  expect(model).toBeInstanceOf(Mine);
  expect(model).toBeInstanceOf(CausalDecoder);
  expect(model.configJson()).toMatchObject({ architectures: ['MineForCausalLM'] });
});

test('A model without random values has weights of zeros.', async () => {
  const model = new LlamaForCausalLM(sizes, { initialValues: 'zeros' });
  const weight = await model.lmHead.weight.data();
  expect(weight.every((value) => value === 0)).toBe(true);
});

test('The experts of Mixtral have the names of the tensors of its files.', () => {
  const model = new MixtralForCausalLM({ ...sizes, numKeyValueHeads: 2, numLocalExperts: 2 });
  const layer = 'model.layers.0.block_sparse_moe';
  const names = model.namedState().map(([name]) => name);
  expect(names).toContain(`${layer}.gate.weight`);
  const stacked = model.stackedTensors();
  expect(stacked.every(({ name }) => names.includes(name))).toBe(true);
  expect(stacked.flatMap(({ parts }) => parts)).toEqual(
    ['w1', 'w3', 'w2'].flatMap((each) => [0, 1].map((i) => `${layer}.experts.${i}.${each}.weight`)),
  );
});

describe('Strategies that are told nothing', () => {
  test('leave a vocabulary whole that the ranks do not divide', () => {
    const model = new LlamaForCausalLM({ ...sizes, vocabSize: 9, numKeyValueHeads: 2 });
    const cut = cutOnTwoRanks(model);
    expect(cut).not.toContain('lm_head.weight');
    expect(cut).toContain('model.layers.0.self_attn.q_proj.weight');
  });

  test('refuse a model that says nothing of its division', () => {
    expect(() => tensorParallel().plan({ parameters: [] }, [{ name: 'tp', size: 2 }])).toThrow(
      LayoutError,
    );
  });

  test('take what a module of a user says', () => {
    class Own extends nn.Module {
      readonly up = new nn.Linear(4, 8);
      override division(): { readonly styles: () => Record<string, object> } {
        return { styles: () => ({ up: colwiseParallel() }) };
      }
    }
    expect(cutOnTwoRanks(new Own())).toEqual(['up.weight', 'up.bias']);
  });
});

/** The parameters of which two ranks have parts. */
function cutOnTwoRanks(model: nn.Module): readonly string[] {
  const division = model.division?.();
  const parameters = model.namedParameters().map(([name, { shape, dtype, requiresGrad }]) => {
    return { name, shape, dtype, requiresGrad };
  });
  const modules = model.namedModules().map(([path]) => path);
  const spec = { parameters, modules, ...(division === undefined ? {} : { division }) };
  const plan = tensorParallel().plan(spec, [{ name: 'tp', size: 2 }]);
  return plan.parameters.flatMap(({ name, parameter }) =>
    parameter.dims.flat().length > 0 ? [name] : [],
  );
}
