import { cpu } from '@shardwise/backend-cpu';
import { LayoutError, type MeshAxis, nn, setRank } from '@shardwise/core';
import type { ParameterSpec } from '@shardwise/core/extend';
import {
  collectivesOf,
  colwiseParallel,
  compose,
  ddp,
  expertParallel,
  fsdp,
  planFor,
  rowwiseParallel,
  tensorParallel,
} from '@shardwise/strategies';
import { beforeEach, describe, expect, it } from 'vitest';
import { checkSequences } from '../src/apply/check-plan.ts';
import { tokensStyle } from '../src/expert-parallel/tokens-style.ts';
import { ExpertModel } from './ranks/expert-models.ts';
import { SequenceModel } from './ranks/expert-models.ts';

describe('a plan of expertParallel', () => {
  const model = (): ExpertModel => new ExpertModel({ gate: nn.topKGate() });
  const specs = (own = model()): ParameterSpec[] =>
    own
      .namedParameters()
      .map(([name, { shape, dtype }]) => ({ name, shape, dtype, requiresGrad: true }));
  const planOn = (axes: readonly MeshAxis[], own = model()): (() => unknown) => {
    const strategy = expertParallel();
    return () => strategy.plan({ parameters: specs(own) }, axes);
  };

  beforeEach(async () => setRank({ device: await cpu() }));

  it('a plan of expertParallel is refused where ranks do not divide experts', () => {
    const plan = planOn([{ name: 'ep', size: 3 }]);
    expect(plan).toThrow(LayoutError);
    expect(plan).toThrow(/experts.*over 3 ranks along dim 0.*Pad it to|8 elements/);
  });

  it('a plan of expertParallel is refused without the axis, and for a model without experts', () => {
    expect(planOn([{ name: 'dp', size: 2 }])).toThrow("'ep'");
    expect(() => planFor(new nn.Linear(2, 2), expertParallel({ axis: 'dp' }))).toThrow(LayoutError);
  });

  it.each([colwiseParallel(), rowwiseParallel()])(
    'is the way to divide experts: $name of their matrices is refused',
    (style) => {
      const axes = [{ name: 'tp', size: 2 }];
      const cut = (): unknown =>
        tensorParallel({ 'experts.experts': style }).plan({ parameters: specs() }, axes);
      expect(cut).toThrow(LayoutError);
      expect(cut).toThrow(
        /'experts\.experts'.*expertParallel\(\{ axis: \['tp', 'ep'\], sameTokens: \['tp'\] \}\)/s,
      );
    },
  );

  it('a plan of expertParallel goes before what divides the batch on other axes', () => {
    const axes = [
      { name: 'dp', size: 2 },
      { name: 'ep', size: 2 },
    ];
    const parameters = specs();
    const plan = compose(expertParallel(), fsdp()).plan({ parameters }, axes);
    expect(plan.batch.dims).toEqual([['ep', 'dp']]);
    const up = plan.parameters.find(({ name }) => name === 'experts.experts.up');
    expect(up?.parameter.dims).toEqual([['ep', 'dp'], [], []]);
    expect(() => compose(ddp(), expertParallel()).plan({ parameters }, axes)).toThrow(
      'Use one strategy that divides the batch, and put it last',
    );
  });

  it('a plan of expertParallel has more ranks for experts than shares of the batch, on the ranks of tensor parallelism', () => {
    const axes = [
      { name: 'dp', size: 2 },
      { name: 'tp', size: 2 },
    ];
    const over = expertParallel({ axis: ['tp', 'dp'], sameTokens: ['tp'] });
    const styles = { first: colwiseParallel({ output: 'invariant' }) };
    const plan = compose(tensorParallel(styles), over).plan({ parameters: specs() }, axes);
    expect(plan.batch.dims).toEqual([['dp']]);
    const layout = (name: string): unknown =>
      plan.parameters.find((each) => each.name === name)?.parameter.dims;
    expect(layout('experts.experts.up')).toEqual([['tp', 'dp'], [], []]);
    expect(layout('first.weight')).toEqual([['tp'], []]);
    expect(plan.steps.filter(({ kind }) => kind === 'shardLayers')).toHaveLength(2);
  });

  it('a plan of expertParallel names what is wrong with its axes', () => {
    expect(() => expertParallel({ axis: [] })).toThrow('no axis, or an axis twice');
    expect(() => expertParallel({ axis: ['ep', 'ep'] })).toThrow('no axis, or an axis twice');
    expect(() => expertParallel({ sameTokens: ['tp'] })).toThrow(
      "'tp', which is not an axis that divides experts",
    );
    const axes = [
      { name: 'tp', size: 4 },
      { name: 'ep', size: 4 },
    ];
    const strategy = expertParallel({ axis: ['tp', 'ep'], sameTokens: ['tp'] });
    const parameters = specs();
    // Each axis alone divides the number of experts, but both together do not.
    expect(() => strategy.plan({ parameters }, axes)).toThrow(/over 16 ranks along dim 0/);
  });

  it('a plan of expertParallel averages over the axis every gradient but those of experts', () => {
    const axes = [{ name: 'ep', size: 2 }];
    const parameters = specs();
    const plan = expertParallel().plan({ parameters }, axes);
    const averaged = collectivesOf(plan).filter(({ operation }) => operation === 'allReduce');
    expect(averaged.map(({ parameters: [name] }) => name)).toEqual(
      parameters.map(({ name }) => name).filter((name) => !/experts\.(up|down|gate)$/.test(name)),
    );
  });

  it('a plan of expertParallel is refused where a sequence is said to be spread over ranks that have other sequences', () => {
    const balanced = (over: readonly string[]): SequenceModel => new SequenceModel(over);
    const axes = [
      { name: 'dp', size: 2 },
      { name: 'ep', size: 2 },
    ];
    const check = (model: SequenceModel, sizes: readonly MeshAxis[]): void => {
      const parameters = model
        .namedParameters()
        .map(([name, { shape, dtype }]) => ({ name, shape, dtype, requiresGrad: true }));
      checkSequences(compose(expertParallel(), ddp()).plan({ parameters }, sizes), model);
    };
    const wrong = /'experts'.*sequences that are spread over 'ep'.*Leave 'ep' out of bySequence/s;
    expect(() => check(balanced(['ep']), axes)).toThrow(wrong);
    expect(() => check(balanced(['dp']), axes)).toThrow(/spread over 'dp'/);
    expect(() => check(balanced([]), axes)).not.toThrow();
    const alone = axes.map(({ name }) => ({ name, size: 1 }));
    expect(() => check(balanced(['ep']), alone)).not.toThrow();
  });

  it('a plan of expertParallel is refused where ranks have parts of sequences that a layer takes for whole ones', () => {
    const style = tokensStyle('invariant', 'tp');
    const layer = (over: true | readonly string[]): nn.Module => new SequenceModel(over).experts;
    expect(() => style.kind.check?.(layer(true), 'experts')).toThrow(
      /Say so: bySequence: \['tp'\]/,
    );
    expect(() => style.kind.check?.(layer(['cp']), 'experts')).toThrow(
      /bySequence: \['cp', 'tp'\]/,
    );
    expect(() => style.kind.check?.(layer(['tp']), 'experts')).not.toThrow();
  });
});
