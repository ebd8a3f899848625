import { defineComponent, h, ref, shallowRef, watch, type VNode } from 'vue';
import { choice, slider, table } from '../../explorers/controls.ts';
import { leastSent } from '../../explorers/least-sent.ts';
import type { OperationName } from '../../explorers/record-collective.ts';
import { bytesText, percentText } from '../../explorers/quantities.ts';
import { firstText } from '../language/first-text.ts';
import {
  type LanguageLook,
  type LanguageTask,
  CONTEXT,
  WINDOWS,
} from '../language/language-task.ts';
import { lineChart } from '../line-chart.ts';
import type { MessageCount, Snapshot } from '../live-job.ts';
import type { LiveOptions, LiveState } from '../live-run.ts';
import { rankLabel } from '../rank-mark.ts';
import { useLiveRun } from '../use-live-run.ts';

const STEPS = 100;
const strategies = ['ddp', 'fsdp'] as const;
type Compared = (typeof strategies)[number];
type State = LiveState<LanguageLook>;
type States = Readonly<Partial<Record<Compared, State>>>;

/**
 * Trains the same GPT on a text with DDP and then with FSDP. Shows the losses, what each rank keeps, and what a step
 * sends.
 */
export const LiveComparison = defineComponent({
  name: 'LiveComparison',
  setup() {
    const size = ref(2);
    const seed = ref(1);
    const current = ref<Compared>('ddp');
    const states = shallowRef<States>({});
    const optionsOf = (strategy: Compared): Omit<LiveOptions, 'device'> => {
      current.value = strategy;
      return {
        size: size.value,
        steps: STEPS,
        seed: seed.value,
        stepTokens: WINDOWS * CONTEXT,
        task: {
          kind: 'text',
          strategy,
          text: new TextEncoder().encode(firstText),
        } satisfies LanguageTask,
        script: () =>
          new Worker(new URL('../language/language-rank.ts', import.meta.url), { type: 'module' }),
      };
    };
    const { state, frame } = useLiveRun<LanguageLook>({
      title: 'DDP beside FSDP',
      size,
      kills: false,
      options: () => optionsOf('ddp'),
      next: () => (current.value === 'ddp' ? optionsOf('fsdp') : undefined),
    });
    // The watcher runs synchronously, because the second training begins right after the end of the first.
    watch(
      state,
      (now) => {
        states.value = now === undefined ? {} : { ...states.value, [current.value]: now };
      },
      { flush: 'sync' },
    );

    return (): VNode =>
      frame(
        [choice('Ranks', size, [2, 4]), slider('Seed', seed, { min: 1, max: 20 })],
        [
          h('p', { class: 'summary' }, verdictOf(states.value, size.value)),
          h('div', { class: 'two' }, [
            lossesOf(states.value),
            h('figure', [
              h('figcaption', 'What both write'),
              ...strategies.map((strategy) => sampleOf(strategy, states.value[strategy])),
            ]),
          ]),
          keptBytes(states.value, size.value),
          messagesOf(states.value, size.value),
        ],
      );
  },
});

function lossesOf(states: States): VNode {
  return lineChart({
    title: 'Loss of a byte',
    xTitle: 'steps',
    most: STEPS,
    isLogarithmic: false,
    yRange: [0, 6],
    lines: strategies.map((strategy, index) => ({
      name: strategy,
      rank: index,
      // The line of DDP is broad, because the other line lies on it.
      isBroad: strategy === 'ddp',
      points: (states[strategy]?.losses ?? []).map((loss, at) => [at + 1, loss] as const),
    })),
  });
}

function sampleOf(strategy: Compared, state: State | undefined): VNode {
  const look = state?.ranks[0]?.snapshot?.look;
  return h('div', [
    h('p', { class: 'setting' }, strategy),
    h('pre', { class: 'sample short' }, look?.kind === 'text' ? look.sample : 'Nothing yet.'),
  ]);
}

/** Compares the two trainings when both are over. */
function verdictOf(states: States, size: number): string {
  const [ddp, fsdp] = strategies.map((strategy) => states[strategy]);
  if (ddp === undefined)
    return `First ${STEPS} steps with ddp are trained, and then ${STEPS} with fsdp.`;
  if (fsdp === undefined) return 'ddp is being trained; fsdp comes after it.';
  if (fsdp.losses.length < STEPS) return 'ddp has been trained; fsdp is being trained.';
  const apart = Math.max(
    ...fsdp.losses.map((loss, index) => Math.abs(loss / (ddp.losses[index] ?? Number.NaN) - 1)),
  );
  const [less, more] = [statesOf(fsdp, 0), statesOf(ddp, 0)];
  const [sent, fewer] = [fsdp, ddp].map((state) => sentBytes(snapshotOf(state, 0)?.messages, size));
  return [
    apart === 0
      ? 'All losses are equal.'
      : `The losses are never further apart than ${apart.toExponential(1)} of the loss.`,
    `With fsdp rank 0 keeps ${percentText(less / more)} of what it keeps with ddp,`,
    `and a step sends ${Number(((sent ?? 0) / (fewer ?? 1)).toPrecision(3))} times as much.`,
  ].join(' ');
}

function snapshotOf(state: State | undefined, rank: number): Snapshot<LanguageLook> | undefined {
  return state?.ranks[rank]?.snapshot;
}

const statesOf = (state: State, rank: number): number =>
  snapshotOf(state, rank)?.statesBytes ?? Number.NaN;

const bytesOrNone = (bytes: number | undefined): string =>
  bytes === undefined ? '–' : bytesText(bytes);

function keptBytes(states: States, size: number): VNode {
  return table(
    'Bytes that each rank keeps',
    [
      { title: 'rank' },
      ...strategies.flatMap((strategy) => [
        { title: strategy, isNumber: true },
        { title: `plan of ${strategy}`, isNumber: true },
      ]),
    ],
    Array.from({ length: size }, (_, rank) => [
      { text: `rank ${rank}`, node: rankLabel(rank) },
      ...strategies.flatMap((strategy) => {
        const snapshot = snapshotOf(states[strategy], rank);
        return [bytesOrNone(snapshot?.statesBytes), bytesOrNone(snapshot?.plannedBytes)];
      }),
    ]),
  );
}

/** Lists the collectives of one step on rank 0 beside those of the plan. */
function messagesOf(states: States, size: number): VNode {
  return table(
    'Messages of a step',
    [
      { title: 'strategy' },
      { title: 'collective' },
      { title: 'messages', isNumber: true },
      { title: 'bytes', isNumber: true },
      { title: 'bytes of the plan', isNumber: true },
      { title: 'a rank sends', isNumber: true },
    ],
    strategies.flatMap((strategy) => {
      const { messages = [], plannedMessages } = snapshotOf(states[strategy], 0) ?? {};
      if (messages.length === 0) return [[strategy, '–', '–', '–', '–', '–']];
      return messages.map(({ operation, count, bytes }) => [
        strategy,
        operation,
        count,
        bytesText(bytes),
        bytesOrNone(plannedMessages?.find((each) => each.operation === operation)?.bytes),
        bytesText(sentBytes([{ operation, count, bytes }], size)),
      ]);
    }),
  );
}

/** Returns the bytes that a rank has to send at least for these collectives. */
function sentBytes(messages: readonly MessageCount[] = [], size: number): number {
  return messages.reduce(
    (sum, { operation, bytes }) =>
      sum + (isKnown(operation) ? leastSent(operation, size, bytes) : Number.NaN),
    0,
  );
}

const known: readonly string[] = [
  'allReduce',
  'allGather',
  'broadcast',
  'reduceScatter',
] satisfies OperationName[];

const isKnown = (operation: string): operation is OperationName => known.includes(operation);
