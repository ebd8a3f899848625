import { singleGroup } from '@shardwise/collectives';
import {
  hostPages,
  type Layout,
  LayoutError,
  type Mesh,
  type Model,
  nn,
  ones,
  type PageStore,
  setRank,
  type Strategy,
  Tensor,
} from '@shardwise/core';
import { type ParameterPlan, replicated } from '@shardwise/core/extend';
import {
  applyPlan,
  colwiseParallel,
  type CommHook,
  compose,
  dataParallel,
  ddp,
  fsdp,
  type ModelPlan,
  planFor,
  Step,
  type StepKind,
  stepKinds,
  stepsOf,
  tensorParallel,
  zero,
} from '@shardwise/strategies';
import { interpreter } from '@shardwise/testing';
import { beforeEach, describe, expect, it } from 'vitest';

/** A mesh with one rank along every axis. */
const mesh: Mesh = {
  axes: ['dp', 'tp'].map((name) => ({ name, size: 1 })),
  group: () => singleGroup(),
  coordinate: () => 0,
};

beforeEach(() => setRank({ device: interpreter(), mesh }));

type Edit = (plan: ModelPlan) => ModelPlan;

/** Moves the steps of a kind to the front. */
function first(kind: { readonly name: string }): Edit {
  return (plan) => {
    const own = plan.steps.filter((step) => step.kind === kind.name);
    return { ...plan, steps: [...own, ...plan.steps.filter((step) => !own.includes(step))] };
  };
}

/** Adds a step at the end. */
function and(step: ModelPlan['steps'][number]): Edit {
  return (plan) => ({ ...plan, steps: [...plan.steps, step] });
}

/** Changes the first step of a kind. */
function withFirst<Data extends object>(kind: StepKind<Data>, changes: Partial<Data>): Edit {
  return (plan) => {
    const [step] = stepsOf(plan, kind);
    const changed = plan.steps.map((each) => (each === step ? step.with(changes) : each));
    return { ...plan, steps: changed };
  };
}

/** Changes the layouts of the parameters. */
function laidOut(
  layoutsOf: (
    each: ParameterPlan,
  ) => Partial<Record<'parameter' | 'gradient' | 'optimizer', Layout>>,
): Edit {
  return (plan) => {
    const parameters = plan.parameters.map((each) => ({ ...each, ...layoutsOf(each) }));
    return { ...plan, parameters };
  };
}

const whole = laidOut(({ shape }) => {
  const layout = replicated(shape);
  return { parameter: layout, gradient: layout, optimizer: layout };
});

const hook: CommHook = ({ gradients }) => gradients;
const layers = tensorParallel({ '0': colwiseParallel() });
const unit = { axis: 'dp', unit: '', reshardAfterForward: true, prefetch: 1 };
/** DDP whose buckets are so small that each gradient is reduced by itself. */
const buckets = ddp({ bucketBytes: 4 });

const refused: Readonly<Record<string, readonly [Strategy, Edit, message: string]>> = {
  'parts that are reduced before they are made': [
    fsdp(),
    first(stepKinds.reduce),
    "a plan of 'fsdp' with the step 'distribute': a step 'reduce' stands before it. Put 'distribute' before 'reduce'",
  ],
  'parts that are gathered before they are made': [
    fsdp(),
    first(stepKinds.gather),
    "a step 'gather' stands before it. Put 'distribute' before 'gather'",
  ],
  'layers that are cut after the ranks have other batches': [
    compose(layers, ddp()),
    first(stepKinds.distribute),
    "a step 'distribute' stands before it. Put 'shardLayers' before 'distribute'",
  ],
  'layers that run in parts before they are cut': [
    layers,
    first(stepKinds.runLayer),
    "a step 'runLayer' stands before it. Put 'shardLayers' before 'runLayer'",
  ],
  'a model that is given to the ranks twice': [
    ddp(),
    and(new Step(stepKinds.distribute, { axis: 'dp' })),
    "a plan of 'ddp' with one step 'distribute': 2 of them. Leave one",
  ],
  'a model that is given to the ranks, and again by a master': [
    ddp(),
    and(new Step(stepKinds.master, { axis: 'dp' })),
    "with one step 'master' or 'distribute': 2 of them. Leave one",
  ],
  'a model with two masters': [
    dataParallel(),
    and(new Step(stepKinds.master, { axis: 'tp' })),
    "with one step 'master' or 'distribute': 2 of them",
  ],
  'buffers that are shared twice': [
    ddp(),
    and(new Step(stepKinds.broadcastBuffers, { axes: ['tp'] })),
    "with one step 'broadcastBuffers': 2 of them",
  ],
  'gradients that are reduced over two axes': [
    buckets,
    withFirst(stepKinds.reduce, { axis: 'tp' }),
    "a plan of 'ddp' that trains '1.bias' on the ranks of 'dp': no step reduces its gradient over 'dp'",
  ],
  'gradients of which one goes through a hook': [
    buckets,
    withFirst(stepKinds.reduce, { hook }),
    "whose steps 'reduce' agree on hook: two that differ. Give all of them the same hook",
  ],
  'gradients of which one may be missing': [
    buckets,
    withFirst(stepKinds.reduce, { unused: 'any' }),
    "whose steps 'reduce' agree on unused",
  ],
  'gradients of which one is averaged with replicas': [
    buckets,
    withFirst(stepKinds.reduce, { replicas: 'tp' }),
    "reduces gradients over dp, tp: its step 'distribute' gives the model to the ranks of dp",
  ],
  'gradients whose buckets have different limits': [
    buckets,
    withFirst(stepKinds.reduce, { limitsBytes: [8] }),
    "whose steps 'reduce' agree on limitsBytes",
  ],
  'gradients that are averaged with replicas, which were not given the model': [
    ddp(),
    withFirst(stepKinds.reduce, { replicas: 'tp' }),
    "reduces gradients over dp, tp: its step 'distribute' gives the model to the ranks of dp. Give both the same axis and replicas",
  ],
  'a hook, which knows nothing of replicas': [
    fsdp({ replicas: 'tp', unitOf: () => '' }),
    (plan) => whole(withFirst(stepKinds.reduce, { hook })(plan)),
    'reduces gradients over dp, tp by a hook: a hook averages over one axis. Leave out the hook or the replicas',
  ],
  'a hook for the gradient of a part': [
    fsdp({ unitOf: () => '' }),
    withFirst(stepKinds.reduce, { hook }),
    "reduces the gradient of '1.bias' by a hook: each rank of 'dp' updates a part of it, and gets the mean of that part without a hook. Leave out the hook, or have all ranks update the whole",
  ],
  'units of which one is gathered further ahead': [
    fsdp(),
    withFirst(stepKinds.gather, { prefetch: 3 }),
    "whose steps 'gather' agree on prefetch",
  ],
  'a unit that is gathered twice': [
    fsdp(),
    and(new Step(stepKinds.gather, { ...unit, unit: '0', parameters: [] })),
    "gathers the unit '0': two steps that gather it. Join them",
  ],
  'a parameter of two units': [
    fsdp(),
    and(new Step(stepKinds.gather, { ...unit, parameters: ['0.weight'] })),
    "gathers '0.weight': two steps that gather it. Name each parameter in one gather step",
  ],
  'parts that are gathered over another axis': [
    fsdp({ unitOf: () => '' }),
    withFirst(stepKinds.gather, { axis: 'tp' }),
    "gathers '0.weight' over 'tp': the ranks of 'dp' have parts of it. Gather it over 'dp'",
  ],
  'parts in chunks that no step makes': [
    zero({ stage: 1 }),
    laidOut(({ optimizer }) => ({ optimizer: { ...optimizer, chunkSizes: { dp: 3 } } })),
    "parts of a tensor as shard(flat: dp by 3) over the axis 'dp': chunks of 3. Leave chunkSizes out",
  ],
  'parts of parameters that are updated as wholes': [
    ddp(),
    laidOut(({ shape }) => ({ parameter: { ...replicated(shape), flat: ['dp'] } })),
    "whose ranks of 'dp' have flat of '0.weight', invariant of its gradient, and update invariant: states that do not fit each other. Divide gradients only where updates are, and parameters only where gradients are",
  ],
  'whole gradients of parts': [
    fsdp(),
    laidOut(({ shape }) => ({ gradient: replicated(shape) })),
    "whose ranks of 'dp' have shard(0) of '0.weight', invariant of its gradient, and update shard(0)",
  ],
  'a parameter whose parts are other ones than those that are updated': [
    fsdp(),
    laidOut(({ shape }) => ({ optimizer: { ...replicated(shape), flat: ['dp'] } })),
    "whose ranks of 'dp' have shard(0) of '0.weight', shard(0) of its gradient, and update flat",
  ],
  'a layer of whose parts others are updated': [
    layers,
    laidOut(({ shape }) => ({ optimizer: replicated(shape) })),
    "whose ranks of 'tp' have shard(0) of '0.weight', shard(0) of its gradient, and update invariant: states that do not fit each other",
  ],
  'a page of a parameter that all ranks keep whole': [
    ddp(),
    and(new Step(stepKinds.page, { parameters: ['0.weight'], store: hostPages() })),
    "keeps parts of '0.weight' outside the device: it is not sharded. Name parameters that a step 'distribute' shards",
  ],
};

describe('a plan whose steps do not fit each other is refused before anything changes', () => {
  it.each(Object.entries(refused))('%s', async (_, [strategy, edit, message]) => {
    const model = new nn.Sequential(new nn.Linear(2, 2), new nn.Linear(2, 2));
    const before = model.parameters();
    const applied = applyPlan(edit(planFor(model, strategy)), model);
    await expect(applied).rejects.toThrow(LayoutError);
    await expect(applied).rejects.toThrow(message);
    expect(model.parameters()).toEqual(before);
    await applyPlan(planFor(model, strategy), model);
  });
});

describe('pages of parameters', () => {
  it.each<[string, Edit]>([
    ['before', first(stepKinds.page)],
    ['after', (plan) => plan],
  ])('are written where the step stands %s the one that shards them', async (_, edit) => {
    const model = new nn.Linear(2, 2);
    const written: string[] = [];
    const host = hostPages();
    const store: PageStore = {
      write: (name, bytes) => {
        written.push(name);
        return host.write(name, bytes);
      },
    };
    const paged = and(new Step(stepKinds.page, { parameters: ['weight'], store }));
    await applyPlan(edit(paged(planFor(model, fsdp()))), model);
    expect(written).toEqual(['weight']);
  });
});

/** A kind of step that changes the inputs and the outputs of forward passes. */
function around(change: (x: Tensor) => Tensor): StepKind<object> {
  return {
    name: 'around',
    collectives: () => [],
    apply(_, { hooks }) {
      hooks.push({
        forward: (run, inputs) => changed(run(...changed(inputs))),
      });
    },
  };

  function changed<T>(value: T): T;
  function changed(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((each: unknown) => changed(each));
    return value instanceof Tensor ? change(value) : value;
  }
}

class Identity extends nn.Module implements Model<[x: Tensor], Tensor> {
  /** Shape: N -> N. */
  forward(x: Tensor): Tensor {
    return x;
  }
}

describe('steps that stand around the forward pass', () => {
  it('all do: the first one is the outermost', async () => {
    const model = new Identity();
    const doubled = new Step(
      around((x) => x.mul(2)),
      {},
    );
    const increased = new Step(
      around((x) => x.add(1)),
      {},
    );
    const plan = { ...planFor(model, ddp()), steps: [doubled, increased] };
    const parallel = await applyPlan(plan, model);
    // 1 · 2, + 1, + 1, · 2
    expect(await parallel.forward(ones([])).item()).toBe(8);
  });
});
