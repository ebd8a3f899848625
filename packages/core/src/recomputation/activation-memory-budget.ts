import { rankState } from '../ambient.ts';
import { checkOptions } from '../base/check-options.ts';
import * as option from '../base/option-rules.ts';
import type { OptionRules } from '../base/option-rules.ts';
import { newestNodeId, noGrad } from '../graph/create-node.ts';
import type { Node, Seeded } from '../graph/node.ts';
import { constantLike } from '../graph/ops/leaf.ts';
import type { CheckpointBudget, CheckpointedPass, RecomputedNodes } from '../nn/checkpoint.ts';
import { currentSession } from '../rank.ts';
import { computesAside, type DeviceSpeed, MOVE_SECONDS, usualSpeed } from './device-speed.ts';
import { fitChoice } from './fit-choice.ts';
import { PassValues, type SavedNodes } from './pass-values.ts';
import type { RecomputationChoice } from './recomputation-choice.ts';
import { plannedBytes } from './planned-bytes.ts';
import { allKept, tryBackward } from './trial-backward.ts';

/** Options of `activationMemoryBudget`. */
export interface ActivationMemoryBudgetOptions {
  /**
   * The most bytes that a training pass may take on the device, besides what lies there before it: values that are kept for the
   * backward pass, gradients, inputs, and temporary values.
   */
  readonly bytes: number;
  /**
   * Floating-point operations of products that the device carries out in a second. With `pageBytesPerSecond`, it decides
   * whether a value is recomputed or offloaded; `shardwise measure` says both. Default: what is usual for the kind of device.
   */
  readonly flopsPerSecond?: number;
  /** The bytes that leave the device for pages in a second, or come back. Default: what is usual for the kind of device. */
  readonly pageBytesPerSecond?: number;
  /** Is told what was chosen whenever something is chosen, which is once for each structure of a pass. */
  readonly onChoice?: (choice: RecomputationChoice) => void;
}

const rules: OptionRules<ActivationMemoryBudgetOptions> = {
  bytes: option.required(option.positive),
  flopsPerSecond: option.positive,
  pageBytesPerSecond: option.positive,
  onChoice: option.callback(),
};

/** The most structures of passes whose choices are remembered. The oldest is forgotten first. */
const MOST_CHOICES = 128;

/** A pass that was built, and what is chosen for it, once that is. */
interface OpenPass extends CheckpointedPass {
  /** The number of runs before it was built. */
  readonly plansRun: number;
  saved: SavedNodes | null;
}

/** By the id of a node, counted from the first of its passes, the stretch in which it is recomputed, or that it is offloaded. */
type Choice = ReadonlyMap<number, number | 'offload'>;

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
    const { plansRun } = rankState.counters;
    const open: OpenPass = { ...pass, plansRun, saved: null };
    this.#open.push(new WeakRef(open));
    const saved = (): SavedNodes => {
      // A run asks, too, in the middle of its own walk, which a choice would disturb. To it, everything is kept.
      const isInBackward = rankState.backwardFrom !== undefined;
      if (open.saved === null && !this.#isChoosing && isInBackward) this.#choose(open);
      return open.saved ?? allKept;
    };
    return {
      keeps: (node) => !saved().stretches.has(node) && !saved().offloaded.has(node),
      stretchOf: (node) => saved().stretches.get(node) ?? 0,
    };
  }

  /** Chooses for a pass, and for all others whose values lie on the device together with its own. */
  #choose(asked: OpenPass): void {
    const open = this.#open.flatMap((each) => each.deref() ?? []);
    const { passes, seeds } = inFlight(open, asked);
    this.#open = open.filter((pass) => !passes.includes(pass)).map((pass) => new WeakRef(pass));
    const firstId = Math.min(...passes.flatMap(({ members: [first] }) => first?.id ?? []));
    const key = keyOf(passes, firstId);
    let choice = this.#choices.get(key);
    if (choice === undefined) {
      this.#isChoosing = true;
      try {
        const { stretches, offloaded } = this.#chosenFor(passes, seeds);
        choice = new Map<number, number | 'offload'>([
          ...Array.from(stretches, ([{ id }, stretch]) => [id - firstId, stretch] as const),
          ...Array.from(offloaded, ({ id }) => [id - firstId, 'offload'] as const),
        ]);
      } finally {
        this.#isChoosing = false;
      }
      const [oldest] = this.#choices.keys();
      if (this.#choices.size >= MOST_CHOICES && oldest !== undefined) this.#choices.delete(oldest);
      this.#choices.set(key, choice);
    }
    for (const pass of passes) {
      const stretches = new Map<Node, number>();
      const offloaded = new Set<Node>();
      for (const node of pass.members) {
        const chosen = choice.get(node.id - firstId);
        if (chosen === 'offload') offloaded.add(node);
        else if (chosen !== undefined) stretches.set(node, chosen);
      }
      pass.saved = { stretches, offloaded };
      for (const node of offloaded) pass.offload?.(node);
    }
  }

  #chosenFor(passes: readonly OpenPass[], seeds: readonly Seeded[]): SavedNodes {
    const session = currentSession();
    const { bytes: budgetBytes, onChoice, ...given } = this.#options;
    const speed: DeviceSpeed = { ...usualSpeed(session.backend), ...given };
    const members = passes.flatMap((pass) => pass.members).toSorted((a, b) => a.id - b.id);
    const results = new Set(passes.flatMap((pass) => [...pass.results]));
    const pending = [...rankState.pending.keys()];
    const bytesWith = (nodes: SavedNodes): number => {
      const { era } = rankState;
      try {
        const { gradients, aheadBytes } = tryBackward(seeds, nodes);
        return plannedBytes([...pending, ...gradients.values()], session) + aheadBytes;
      } finally {
        rankState.era = era;
      }
    };
    const saved = savedBy(tryBackward(seeds, allKept));
    const paged = new Set(passes.flatMap((pass) => (pass.offload === null ? [] : pass.members)));
    const values = new PassValues(members, results, saved, {
      hasPages: (node) => paged.has(node),
      costOf: (bytes) => (MOVE_SECONDS + bytes / speed.pageBytesPerSecond) * speed.flopsPerSecond,
      overlaps: computesAside(session.backend),
    });
    const fitted = fitChoice(values, budgetBytes, bytesWith);
    onChoice?.({
      plannedBytes: fitted.plannedBytes,
      plannedBytesOfNone: fitted.plannedBytesOfNone,
      ...values.describe(fitted.saved, speed.flopsPerSecond),
    });
    return fitted.nodes;
  }
}

/**
 * The passes of which values lie on the device when the backward pass comes to `asked`: those that it comes to, and those that
 * wait for a backward pass, as microbatches do. `seeds` are where the backward passes begin, those that wait at the results.
 */
function inFlight(
  open: readonly OpenPass[],
  asked: OpenPass,
): { readonly passes: readonly OpenPass[]; readonly seeds: readonly Seeded[] } {
  const seeds = [...(rankState.backwardFrom ?? [])];
  const below = new Set(seeds.map(({ output }) => output));
  addBelow(below);
  const isReached = (pass: OpenPass): boolean => pass.members.some((node) => below.has(node));
  const found = new Set(open.filter(isReached));
  for (const pass of open.toReversed()) {
    if (found.has(pass) || (pass !== asked && !isWaiting(pass))) continue;
    found.add(pass);
    // It is below a later pass that waits, or it is the last one of its microbatch.
    if (isReached(pass)) continue;
    for (const output of pass.results) {
      if (!output.requiresGrad) continue;
      seeds.push({ output, gradient: noGrad(() => constantLike(output, 1)) });
      below.add(output);
    }
    addBelow(below);
  }
  return { passes: open.filter((pass) => found.has(pass)), seeds };
}

/** Whether a backward pass may still come to a pass in the run of the next one: nothing has run since the pass was built. */
function isWaiting({ plansRun, results }: OpenPass): boolean {
  return (
    plansRun === rankState.counters.plansRun && [...results].every(({ wasWalked }) => !wasWalked)
  );
}

/** Adds the nodes that a backward pass from these comes to. */
function addBelow(nodes: Set<Node>): void {
  for (const node of nodes) {
    for (const input of node.inputs) if (input.requiresGrad) nodes.add(input);
  }
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

/**
 * What a choice depends on: the operations and shapes of the passes, which of their values are there, and how many nodes
 * the program made around them.
 */
function keyOf(passes: readonly OpenPass[], firstId: number): string {
  const words = passes.flatMap(({ members, offload }) => [
    offload === null ? 'kept' : 'paged',
    ...members.map(({ id, op, shape, dtype, value }) => {
      return `${id - firstId}${value === null ? '' : '='}${op}${shape.join('x')}${dtype}`;
    }),
  ]);
  return [newestNodeId() - firstId, rankState.pending.size, ...words].join();
}

/**
 * A policy of `checkpoint` that chooses, value by value, what the backward pass recomputes, so that a training pass stays
 * within its bytes at the least cost (torch._functorch.config.activation_memory_budget, which is a share and not bytes):
 *
 *     const policy = nn.activationMemoryBudget({ bytes: 1e9 });
 *     const output = nn.checkpoint(() => model.forward(x), { policy, pages: hostPages() });
 *
 * If the checkpoint has pages, it also chooses values that leave the device as soon as the forward pass has read them, and
 * come back a program before the backward pass reads them.
 *
 * It is chosen when the first backward pass of a structure comes to the checkpoints, by the plan of the run that this pass
 * would be, and for all checkpoints that share the budget and are in flight together. If a device does not say what its programs
 * need for temporary values (Backend.temporaryBytes), these are estimated from above.
 *
 * Results and gradients have the same bits as without it, as for `checkpoint`. Ranks need not choose alike, because what was
 * sent is never sent again. The backward pass throws ConfigError for a budget that no choice meets, with the least that one would.
 */
export function activationMemoryBudget(options: ActivationMemoryBudgetOptions): CheckpointBudget {
  return new ActivationMemoryBudget(options);
}
