import { withoutAutocast } from '../../graph/autocast.ts';
import { isGradEnabled, noGrad } from '../../graph/create-node.ts';
import type { Generator } from '../../random/generator.ts';
import * as init from '../../random/init.ts';
import { defaultGenerator } from '../../random/keys.ts';
import { composedAll } from '../../realize/pending/small-values.ts';
import { elementCount, sizeAt } from '../../base/shape.ts';
import { checkOptions } from '../../base/check-options.ts';
import { ConfigError } from '../../spec/errors.ts';
import * as option from '../../base/option-rules.ts';
import type { OptionRules } from '../../base/option-rules.ts';
import { zeros } from '../../tensor/create.ts';
import type { Tensor } from '../../tensor/tensor.ts';
import { linear } from '../functional/linear.ts';
import { Linear } from '../layers/linear.ts';
import { Module } from '../module/module.ts';
import { BufferTensor } from '../parameter/parameter.ts';
import { requireShape } from '../functional/require-shape.ts';
import type { Layer } from '../containers/sequential.ts';
import { type BalanceLoss, balanceLoss, balanceRules, routerZLoss } from './balance-loss.ts';
import { type BiasUpdate, biasUpdateRules, ExpertBias } from './expert-bias.ts';
import { type ExpertActivation, Experts, expertsRules } from './experts.ts';
import type { Gate, Routing } from './gate.ts';
import { randomShares } from './random-shares.ts';
import { observe, readStatistics, type RouterStatistics } from './router-statistics.ts';
import { defineSequenceAxes, sequenceAxesOf } from './sequence-axes.ts';
import { sortRoutes, type SortedRoutes } from './sort-routes.ts';
import { topKGate } from './top-k-gate.ts';

/** Options of `MixtureOfExperts`. */
export interface MixtureOfExpertsOptions {
  /**
   * The gate, which assigns tokens to experts. Default: topKGate(), with two experts for each token and nothing
   * dropped.
   */
  readonly gate?: Gate;
  /** The activation of the experts. Default: gelu. */
  readonly activation?: ExpertActivation;
  /** A loss that balances the experts. It is a part of `auxiliaryLoss`. Default: none. */
  readonly balance?: BalanceLoss;
  /** The coefficient of routerZLoss, which is a part of `auxiliaryLoss`. Default: 0. */
  readonly zLoss?: number;
  /** Balances experts without a loss, by a bias for each expert that `updateExpertBias` changes. Default: none. */
  readonly bias?: BiasUpdate;
  /** A layer that computes every token in addition to the experts. Its result is added. */
  readonly shared?: Layer;
  /**
   * A layer that computes every token. Its result and that of the experts are weighted for each token by a
   * linear layer (Rajbhandari et al. 2022).
   */
  readonly residual?: Layer;
  /**
   * Mesh axes whose ranks have other tokens of the same batch. Balance losses then count all of their tokens,
   * with a message of a few numbers in each pass, which plans do not list. If losses are by sequence,
   * `bySequence` names the axes instead. Default: none, so each rank balances its own tokens.
   */
  readonly axes?: readonly string[];
  /** The source of initial values. Default: the rank's generator. */
  readonly generator?: Generator;
}

const layerRule: option.OptionRule<Layer> = option.object('a module with a forward pass');
const moduleRules: OptionRules<MixtureOfExpertsOptions> = {
  ...expertsRules,
  gate: option.object('a gate'),
  balance: option.object('a balance loss'),
  zLoss: option.nonNegative,
  bias: option.object('an update of biases'),
  shared: layerRule,
  residual: layerRule,
  axes: option.listOf(option.axisName),
};
interface Sizes {
  readonly features: number;
  readonly hiddenFeatures: number;
  readonly experts: number;
}
const sizeRules: OptionRules<Sizes> = {
  features: option.required(option.integer(1)),
  hiddenFeatures: option.required(option.integer(1)),
  experts: option.required(option.integer(1)),
};

/**
 * A layer in which a few of many experts compute each token (Shazeer et al. 2017). It replaces the two linear layers of
 * a transformer block. Routes are sorted by expert, and there is one product for each expert that has routes. Results
 * are summed in the order of a token's choices, so they do not depend on where experts are computed. The weight of the
 * router and its results are f32, also inside autocast.
 */
export class MixtureOfExperts extends Module {
  router: Linear;
  experts: Experts;
  expertBias: BufferTensor | null;
  shared: Layer | null;
  residual: Layer | null;
  /** The layer that computes the weights of the experts and of the residual layer. */
  coefficient: Linear | null;
  readonly gate: Gate;
  readonly balance: BalanceLoss | null;
  readonly zLoss: number;
  /** The mesh axes over whose ranks balance losses count. */
  readonly axes: readonly string[];
  readonly #bias: ExpertBias | null;
  #auxiliary: Tensor | null = null;
  #observed: Tensor | null = null;

  /** Throws ConfigError, also if the gate cannot choose from this number of experts. */
  constructor(
    features: number,
    hiddenFeatures: number,
    experts: number,
    options: MixtureOfExpertsOptions = {},
  ) {
    super();
    checkOptions('MixtureOfExperts', { features, hiddenFeatures, experts }, sizeRules);
    checkOptions('MixtureOfExperts', options, moduleRules);
    const { gate = topKGate(), balance, zLoss = 0, bias, shared, residual } = options;
    const { activation = 'gelu', generator = defaultGenerator(), axes = [] } = options;
    gate.check(experts);
    if (balance !== undefined) checkOptions('MixtureOfExperts balance', balance, balanceRules);
    if (bias !== undefined) checkOptions('MixtureOfExperts bias', bias, biasUpdateRules);
    if (balance !== undefined && gate.k === null) throw noChoices(gate, 'a balance loss');
    if (bias !== undefined && !gate.takesBias) throw noChoices(gate, 'a bias of experts');
    this.router = new Linear(features, experts, { bias: false, generator });
    this.experts = new Experts(experts, features, hiddenFeatures, { activation, generator });
    this.#bias = bias === undefined ? null : new ExpertBias(bias);
    this.expertBias =
      bias === undefined ? null : new BufferTensor(init.zeros([experts]), [experts]);
    this.shared = shared ?? null;
    this.residual = residual ?? null;
    this.coefficient = residual === undefined ? null : new Linear(features, 2, { generator });
    this.gate = gate;
    this.balance = balance ?? null;
    const { bySequence = false } = balance ?? {};
    defineSequenceAxes(this, typeof bySequence === 'object' ? bySequence : bySequence ? [] : null);
    this.zLoss = zLoss;
    this.axes = axes;
  }

  /** Shape: x [.., features] -> [.., features]. */
  forward(x: Tensor): Tensor {
    const features = sizeAt(this.router.weight.shape, 1);
    requireShape({ operation: 'MixtureOfExperts', name: 'x', value: x }, [
      '..',
      ['features', features],
    ]);
    this.#requireTaken();
    const made = composedAll(
      () => this.#compute(x, features),
      ({ result, observed, auxiliary }) => [result, observed, ...auxiliary],
    );
    this.#observed = made.observed;
    const [auxiliary] = made.auxiliary;
    if (auxiliary !== undefined) {
      this.#auxiliary = this.#auxiliary === null ? auxiliary : this.#auxiliary.add(auxiliary);
    }
    return made.result;
  }

  /** The balance and z-losses of the training passes since the last call. Null if there are none. Shape: []. */
  takeAuxiliaryLoss(): Tensor | null {
    const loss = this.#auxiliary;
    this.#auxiliary = null;
    return loss;
  }

  /** The statistics of the router in the latest pass. Throws ConfigError before the first one. */
  async routerStatistics(): Promise<RouterStatistics> {
    if (this.#observed === null) {
      throw new ConfigError({
        asked: 'the statistics of a router',
        found: 'no forward pass yet',
        todo: 'Ask after forward()',
      });
    }
    return readStatistics(Array.from(await this.#observed.data(), Number));
  }

  /** Changes the bias of each expert by the routes that it got since the last call. See `updateExpertBias`. */
  updateBias(axes: readonly string[]): void {
    if (this.expertBias !== null) this.#bias?.update(this.expertBias, axes);
  }

  /** Whether a pass trains. A pass without gradients, such as one that generates text, does not. */
  get #trains(): boolean {
    return this.training && isGradEnabled();
  }

  #compute(x: Tensor, features: number): Computed {
    const tokens = elementCount(x.shape.slice(0, -1));
    const rows = x.reshape([tokens, features]);
    const logits = this.#logits(rows);
    const { training, expertBias } = this;
    const count = sizeAt(logits.shape, 1);
    // Routing is computed in f32, including the products of its weights with the results of the experts.
    const routing = withoutAutocast(() => this.gate.route({ logits, bias: expertBias, training }));
    const sorted = sortRoutes(routing, count);
    const shared = new SharedResult(this.shared, rows);
    const routed = this.#route(rows, routing, sorted, shared);
    const weighed = this.#besides(rows, routed.to(x.dtype), shared);
    const observed = noGrad(() => observe(routing, sorted.counts));
    if (this.#trains) this.#bias?.count(routing.experts, count);
    return {
      result: weighed.reshape(x.shape),
      observed,
      auxiliary: this.#losses(x, logits, routing),
    };
  }

  /** The output of the router. Shape: rows [T, C] -> f32 [T, E]. */
  #logits(rows: Tensor): Tensor {
    const { jitter } = this.gate;
    return withoutAutocast(() => {
      const read = rows.to('f32');
      const noisy =
        this.training && jitter > 0
          ? read.mul(
              randomShares(read.shape)
                .mul(2 * jitter)
                .add(1 - jitter),
            )
          : read;
      return linear(noisy, this.router.weight.to('f32'));
    });
  }

  /** Sends the rows through the experts, and sums the results of each token. Shape: rows [T, C] -> f32 [T, C]. */
  #route(
    rows: Tensor,
    routing: Routing,
    { order, places, counts }: SortedRoutes,
    shared: SharedResult,
  ): Tensor {
    const { tokens, weights } = routing;
    const given = rows.indexSelect(0, tokens.indexSelect(0, order));
    const experts = counts.numel;
    const most = this.gate.mostRoutes(sizeAt(rows.shape, 0), experts, this.training);
    const meanwhile = (): void => shared.compute();
    const results = this.experts.forward(given, counts, most, meanwhile).to('f32');
    const made = results.indexSelect(0, places);
    const weighed = made.mul(weights.reshape([weights.numel, 1]));
    const [count = 0, features = 0] = rows.shape;
    const { k } = this.gate;
    if (k !== null) return weighed.reshape([count, k, features]).sum([1]);
    return zeros(rows.shape).indexAdd(0, tokens, weighed);
  }

  /** Adds the results of the shared layer and of the residual layer. Shape: rows [T, C], routed [T, C] -> [T, C]. */
  #besides(rows: Tensor, routed: Tensor, shared: SharedResult): Tensor {
    const { residual, coefficient } = this;
    shared.compute();
    const both = shared.result === null ? routed : routed.add(shared.result);
    if (residual === null || coefficient === null) return both;
    const shares = coefficient.forward(rows).softmax();
    const own = (index: number): Tensor => shares.slice(1, index, index + 1).to(both.dtype);
    return both.mul(own(0)).add(residual.forward(rows).mul(own(1)));
  }

  /** The auxiliary loss of a training pass as one sum. The list is empty if no loss is asked for. */
  #losses(x: Tensor, logits: Tensor, routing: Routing): readonly Tensor[] {
    const { balance, zLoss, axes, gate } = this;
    if (!this.#trains) return [];
    const losses: Tensor[] = [];
    if (balance !== null && gate.k !== null && balance.coefficient > 0) {
      const { kind, coefficient } = balance;
      const spread = sequenceAxesOf(this);
      const isSplit = spread !== null && x.ndim > 2;
      const sequences = isSplit ? elementCount(x.shape.slice(0, -2)) : 1;
      // The routes of a sequence count for this sequence alone. Averaging over ranks covers the sequences of other
      // ranks.
      const counted = isSplit ? spread : axes;
      const options = { k: gate.k, sequences, axes: counted };
      losses.push(balanceLoss(routing, kind, options).mul(coefficient));
    }
    if (zLoss > 0) losses.push(routerZLoss(logits).mul(zLoss));
    const [first, ...others] = losses;
    return first === undefined ? [] : [others.reduce((sum, loss) => sum.add(loss), first)];
  }

  /** Throws ConfigError if a step was taken without the losses of its passes. */
  #requireTaken(): void {
    const pending = this.#auxiliary;
    if (pending === null || !this.#trains || pending.contents.value === null) return;
    this.#auxiliary = null;
    throw new ConfigError({
      asked: 'another forward pass of a MixtureOfExperts with a balance or z-loss',
      found: 'a step whose loss did not have them: nothing balances the experts',
      todo: 'Add them: loss.add(nn.auxiliaryLoss(model)), before backward()',
    });
  }

  protected override nameOf(field: string): string {
    return field === 'expertBias' ? 'expert_bias' : field;
  }

  protected override describe(): string {
    const axes = this.axes.length === 0 ? '' : `, axes=${this.axes.join()}`;
    return `gate=${this.gate.name}, k=${this.gate.k ?? 'of experts'}${axes}`;
  }
}

/** The result of the shared layer, which computes every token. It may be built at different places of the program. */
class SharedResult {
  readonly #layer: Layer | null;
  readonly #rows: Tensor;
  /** The result. Null if there is no shared layer, or before compute() was called. */
  result: Tensor | null = null;

  constructor(layer: Layer | null, rows: Tensor) {
    this.#layer = layer;
    this.#rows = rows;
  }

  /** Builds the result when it is called for the first time. */
  compute(): void {
    this.result ??= this.#layer?.forward(this.#rows) ?? null;
  }
}

interface Computed {
  readonly result: Tensor;
  readonly observed: Tensor;
  readonly auxiliary: readonly Tensor[];
}

function noChoices({ name }: Gate, asked: string): ConfigError {
  return new ConfigError(
    {
      asked: `a MixtureOfExperts with ${name} and ${asked}`,
      found: 'a gate by which experts choose as many tokens each: there is nothing to balance',
      todo: 'Leave it out, or use another gate',
    },
    { gate: name },
  );
}
