import { defineComponent, h, ref, watch, type VNode } from 'vue';
import { choice, slider, table } from '../../explorers/controls.ts';
import { percentText } from '../../explorers/quantities.ts';
import { lineChart, lossChart } from '../line-chart.ts';
import type { LiveState } from '../live-run.ts';
import { rankLabel } from '../rank-mark.ts';
import { useLiveRun } from '../use-live-run.ts';
import { type ExpertLook, type ExpertTask, TOKENS } from './expert-task.ts';

const STEPS = 300;

/** The routes of one step, over the tokens of all ranks. */
interface Routed {
  readonly step: number;
  readonly load: readonly number[];
  readonly dropRate: number;
}

/** Trains experts on ranks of this page. Shows how many tokens each expert has, and how many routes are dropped. */
export const LiveExperts = defineComponent({
  name: 'LiveExperts',
  setup() {
    const experts = ref(8);
    const balance = ref<ExpertTask['balance']>('none');
    const capacity = ref(0);
    const size = ref(2);
    const seed = ref(1);
    const history = ref<readonly Routed[]>([]);
    const { state, frame } = useLiveRun<ExpertLook>({
      title: 'Experts on ranks of this page',
      size,
      options: () => ({
        size: size.value,
        steps: STEPS,
        seed: seed.value,
        stepTokens: TOKENS,
        task: {
          experts: experts.value,
          balance: balance.value,
          capacity: capacity.value,
        } satisfies ExpertTask,
        script: () => new Worker(new URL('./expert-rank.ts', import.meta.url), { type: 'module' }),
      }),
    });
    watch(state, (now) => {
      if (now === undefined) history.value = [];
      const routed = routedOf(now);
      if (routed === undefined || history.value.at(-1)?.step === routed.step) return;
      // After a restart, steps are repeated, so their earlier entries are replaced.
      history.value = [...history.value.filter(({ step }) => step < routed.step), routed];
    });

    return (): VNode =>
      frame(
        [
          choice('Balance', balance, {
            'by nothing': 'none',
            'by a loss': 'loss',
            'by a bias': 'bias',
          } as const),
          choice('Capacity', capacity, {
            'no limit': 0,
            '1 share': 1,
            '1.25 shares': 1.25,
            '2 shares': 2,
          }),
          choice('Experts', experts, [4, 8]),
          choice('Ranks', size, [1, 2, 4]),
          slider('Seed', seed, { min: 1, max: 20 }),
        ],
        [
          loads(experts.value, size.value, history.value.at(-1)),
          h('div', { class: 'two' }, [
            lineChart({
              title: 'Imbalance, and share of tokens dropped',
              xTitle: 'steps',
              most: STEPS,
              isLogarithmic: false,
              yRange: [0, experts.value],
              mark: { name: 'equal', value: 1 },
              lines: [
                {
                  name: 'imbalance',
                  rank: 0,
                  points: history.value.map(({ step, load }) => [step, imbalanceOf(load)]),
                },
                {
                  name: 'dropped',
                  rank: 1,
                  points: history.value.map(({ step, dropRate }) => [step, dropRate]),
                },
              ],
            }),
            lossChart(state.value?.losses ?? [], { most: STEPS }),
          ]),
        ],
      );
  },
});

const imbalanceOf = (load: readonly number[]): number => Math.max(...load, 0) * load.length;

/** Averages over the ranks. They have equal numbers of tokens, so these means are means over all tokens. */
function routedOf(state: LiveState<ExpertLook> | undefined): Routed | undefined {
  const snapshots = (state?.ranks ?? []).flatMap(({ snapshot }) => snapshot ?? []);
  const [first] = snapshots;
  if (first === undefined || snapshots.length < (state?.ranks.length ?? 0)) return undefined;
  if (snapshots.some(({ step }) => step !== first.step)) return undefined;
  const mean = (of: (look: ExpertLook) => number): number =>
    snapshots.reduce((sum, { look }) => sum + of(look), 0) / snapshots.length;
  return {
    step: first.step,
    load: first.look.load.map((_, expert) => mean(({ load }) => load[expert] ?? 0)),
    dropRate: mean(({ dropRate }) => dropRate),
  };
}

/** Draws a bar for each expert. The line marks equal loads. */
function loads(experts: number, ranks: number, routed: Routed | undefined): VNode {
  const load = routed?.load ?? Array.from({ length: experts }, () => 0);
  const most = Math.max(...load, 2 / load.length);
  return h('div', { class: 'loads' }, [
    h('p', { class: 'setting' }, [
      routed === undefined
        ? 'Each bar will be the tokens of an expert.'
        : `Step ${routed.step}: the busiest expert has ${imbalanceOf(load).toFixed(2)} times its share; ${percentText(routed.dropRate)} of tokens are dropped. The line is an equal share.`,
    ]),
    ...load.map((share, expert) => {
      const rank = Math.floor((expert * ranks) / load.length);
      return h('div', { class: 'bar', 'aria-hidden': 'true' }, [
        h('span', `expert ${expert}`),
        h('div', [
          h('i', {
            style: { width: `${(100 * share) / most}%`, background: `var(--rank-${rank})` },
          }),
          h('b', { style: { left: `${100 / load.length / most}%` } }),
        ]),
      ]);
    }),
    table(
      'The experts',
      [
        { title: 'expert' },
        { title: 'is on' },
        { title: 'share of tokens', isNumber: true },
        { title: 'times its equal share', isNumber: true },
      ],
      load.map((share, expert) => {
        const rank = Math.floor((expert * ranks) / load.length);
        return [
          `expert ${expert}`,
          { text: `rank ${rank}`, node: rankLabel(rank) },
          routed === undefined ? '–' : percentText(share),
          routed === undefined ? '–' : (share * load.length).toFixed(2),
        ];
      }),
    ),
  ]);
}
