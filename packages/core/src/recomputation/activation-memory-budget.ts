import { rankState } from '../ambient.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import type { Seeded } from '../autograd/walk.ts';
import { newestNodeId } from '../graph/create-node.ts';
import type { Node } from '../graph/node.ts';
import { flopsOf } from '../graph/flops-of.ts';
import { constantLike } from '../graph/ops/leaf.ts';
import type { CheckpointBudget, CheckpointedPass, RecomputedNodes } from '../nn/checkpoint.ts';
import { currentSession } from '../rank.ts';
import type { DType } from '../spec/dtype.ts';
import type { Op } from '../spec/op.ts';
import { fitChoice } from './fit-choice.ts';
import { PassValues } from './pass-values.ts';
import { plannedBytes } from './planned-bytes.ts';
import { recomputationOf } from './recompute-problem.ts';
import { tryBackward } from './trial-backward.ts';

/** Options of `activationMemoryBudget`. */
export interface ActivationMemoryBudgetOptions {
  /**
   * The most bytes that a training pass may take on the device, besides what lies there before it: values that are kept for the
   * backward pass, gradients, inputs, and temporary values.
   */
  readonly bytes: number;
  /** Is told what was chosen whenever something is chosen, which is once for each structure of a pass. */
  readonly onChoice?: (choice: RecomputationChoice) => void;
}

/** What a budget has chosen for a pass. */
export interface RecomputationChoice {
  /** The bytes that the pass takes at its peak, by its plan. */
  readonly plannedBytes: number;
  /** The same if nothing were recomputed. */
  readonly plannedBytesOfNone: number;
  /** The values that are recomputed, in the order of the program. */
  readonly recomputed: readonly {
    readonly op: Op;
    readonly shape: readonly number[];
    readonly dtype: DType;
  }[];
  /** The floating-point operations of products that are computed again. */
  readonly recomputedFlops: number;
}

const rules: OptionRules<ActivationMemoryBudgetOptions> = {
  bytes: option.required(option.positive),
  onChoice: option.callback(),
};

/** The most structures of passes whose choices are remembered. The oldest is forgotten first. */
const MOST_CHOICES = 128;

/** A pass that was built, and what is recomputed of it, once that is chosen. */
interface OpenPass extends CheckpointedPass {
  readonly gradients: Map<Node, Node>;
  stretches: ReadonlyMap<Node, number> | null;
}

/** By the id of a node, counted from the first of its passes, the stretch in which it is recomputed. */
type Choice = ReadonlyMap<number, number>;

class ActivationMemoryBudget implements CheckpointBudget {
  readonly #options: ActivationMemoryBudgetOptions;
  readonly #choices = new Map<string, Choice>();
  /** The passes for which nothing is chosen. Those that no backward pass comes to are dropped with their graphs. */
  #open: WeakRef<OpenPass>[] = [];
  #isChoosing = false;

  constructor(options: ActivationMemoryBudgetOptions) {
    checkOptions('activationMemoryBudget', options, rules);
    this.#options = options;
  }

  choiceFor(pass: CheckpointedPass): RecomputedNodes {
    const open: OpenPass = { ...pass, gradients: new Map(), stretches: null };
    this.#open.push(new WeakRef(open));
    for (const result of pass.results) {
      (result.gradientHooks ??= new Set()).add((gradient) => {
        open.gradients.set(result, gradient);
        return gradient;
      });
    }
    const stretchOf = (node: Node): number | undefined => {
      if (open.stretches === null && !this.#isChoosing) this.#choose(open);
      return open.stretches?.get(node);
    };
    return {
      keeps: (node) => stretchOf(node) === undefined,
      stretchOf: (node) => stretchOf(node) ?? 0,
    };
  }

  /** Chooses for a pass, and for the others that the same backward pass comes to. */
  #choose(asked: OpenPass): void {
    const open = this.#open.flatMap((each) => each.deref() ?? []);
    const below = nodesBelow(seedsOf(open, asked));
    const isReached = (pass: OpenPass): boolean =>
      pass === asked || pass.members.some((node) => below.has(node));
    const passes = open.filter(isReached);
    this.#open = open.filter((pass) => !isReached(pass)).map((pass) => new WeakRef(pass));
    const firstId = Math.min(...passes.flatMap(({ members: [first] }) => first?.id ?? []));
    const key = keyOf(passes, firstId);
    let choice = this.#choices.get(key);
    if (choice === undefined) {
      this.#isChoosing = true;
      try {
        const stretches = this.#stretchesFor(passes, seedsOf(passes, asked));
        choice = new Map(Array.from(stretches, ([{ id }, stretch]) => [id - firstId, stretch]));
      } finally {
        this.#isChoosing = false;
      }
      const [oldest] = this.#choices.keys();
      if (this.#choices.size >= MOST_CHOICES && oldest !== undefined) this.#choices.delete(oldest);
      this.#choices.set(key, choice);
    }
    for (const pass of passes) {
      const stretches = new Map<Node, number>();
      for (const node of pass.members) {
        const stretch = choice.get(node.id - firstId);
        if (stretch !== undefined) stretches.set(node, stretch);
      }
      pass.stretches = stretches;
    }
  }

  #stretchesFor(passes: readonly OpenPass[], seeds: readonly Seeded[]): ReadonlyMap<Node, number> {
    const session = currentSession();
    const members = passes.flatMap((pass) => pass.members).toSorted((a, b) => a.id - b.id);
    const results = new Set(passes.flatMap((pass) => [...pass.results]));
    const pending = [...rankState.pending.keys()];
    const bytesWith = (stretches: ReadonlyMap<Node, number>): number => {
      const { era } = rankState;
      try {
        const { gradients, aheadBytes } = tryBackward(seeds, stretches);
        return plannedBytes([...pending, ...gradients.values()], session) + aheadBytes;
      } finally {
        rankState.era = era;
      }
    };
    const saved = savedBy(tryBackward(seeds, new Map()));
    const values = new PassValues(members, results, saved);
    const fitted = fitChoice(values, this.#options.bytes, bytesWith);
    const recomputed = values.nodesOf(recomputationOf(values.problem, fitted.kept));
    this.#options.onChoice?.({
      plannedBytes: fitted.plannedBytes,
      plannedBytesOfNone: fitted.plannedBytesOfNone,
      recomputed: recomputed.map(({ op, shape, dtype }) => ({ op, shape, dtype })),
      recomputedFlops: recomputed.reduce((sum, node) => sum + flopsOf(node), 0),
    });
    return fitted.stretches;
  }
}

/** Where a backward pass goes on from: the results of passes whose gradients have come. */
function seedsOf(passes: readonly OpenPass[], asked: OpenPass): readonly Seeded[] {
  const seeds = passes.flatMap(({ gradients }) =>
    Array.from(gradients, ([output, gradient]) => ({ output, gradient })),
  );
  if (seeds.length > 0) return seeds;
  // A value inside of the pass has got its gradient by another way than the results.
  return Array.from(asked.results, (output) => ({ output, gradient: constantLike(output, 1) }));
}

/** The nodes that a backward pass from these outputs comes to. */
function nodesBelow(seeds: readonly Seeded[]): ReadonlySet<Node> {
  const seen = new Set(seeds.map(({ output }) => output));
  for (const node of seen) {
    for (const input of node.inputs) if (input.requiresGrad) seen.add(input);
  }
  return seen;
}

/** The nodes from before a backward pass that it reads. */
function savedBy({ gradients, olderId }: ReturnType<typeof tryBackward>): ReadonlySet<Node> {
  const saved = new Set<Node>();
  const seen = new Set(gradients.values());
  for (const node of seen) {
    if (node.id <= olderId) saved.add(node);
    else for (const input of node.inputs) seen.add(input);
  }
  return saved;
}

/** What a choice depends on: the operations and shapes of the passes, and how many nodes the program made around them. */
function keyOf(passes: readonly OpenPass[], firstId: number): string {
  const words = passes.flatMap(({ members }) =>
    members.map(({ id, op, shape, dtype }) => `${id - firstId}${op}${shape.join('x')}${dtype}`),
  );
  return [newestNodeId() - firstId, rankState.pending.size, ...words].join();
}

/**
 * A policy of `checkpoint` that chooses, value by value, what the backward pass recomputes, so that a training pass stays
 * within its bytes at the least cost (torch._functorch.config.activation_memory_budget, which is a share and not bytes):
 *
 *     const policy = nn.activationMemoryBudget({ bytes: 1e9 });
 *     const output = nn.checkpoint(() => model.forward(x), { policy });
 *
 * It is chosen when the first backward pass of a structure comes to the checkpoints, by the plan of the run that this pass
 * would be, and for all checkpoints that share the budget together. If a device does not say what its programs need for
 * temporary values (Backend.temporaryBytes), these are estimated from above.
 *
 * Results and gradients have the same bits as without it, as for `checkpoint`. Ranks need not choose alike, because what was
 * sent is kept. The backward pass throws ConfigError for a budget that no choice meets, with the least that one would.
 */
export function activationMemoryBudget(options: ActivationMemoryBudgetOptions): CheckpointBudget {
  return new ActivationMemoryBudget(options);
}
