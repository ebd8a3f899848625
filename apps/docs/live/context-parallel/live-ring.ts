import { computed, defineComponent, h, onBeforeUnmount, ref, watch, type VNode } from 'vue';
import { choice, explorer, slider, spoken, table, type Cell } from '../../explorers/controls.ts';
import { bytesText } from '../../explorers/quantities.ts';
import { useMotion } from '../../explorers/use-motion.ts';
import { rankLabel } from '../rank-mark.ts';
import { useRanks } from '../use-ranks.ts';
import { ringDrawing } from './ring-drawing.ts';
import {
  balanceOf,
  bytesByFormula,
  pairsOfRanks,
  recordedBytes,
  ringPass,
  type RingPass,
} from './ring-steps.ts';
import type { RingRecord, RingTask } from './ring-task.ts';

const methods = ['ring', 'allGather', 'ulysses', 'usp'] as const;
const orders = ['headTail', 'contiguous'] as const;
const MOMENT_MS = 1100;

/** Attends to a sequence that ranks of this page share. Shows who has which tokens, keys and values at each moment. */
export const LiveRing = defineComponent({
  name: 'LiveRing',
  setup() {
    const method = ref<RingTask['method']>('ring');
    const order = ref<RingTask['order']>('headTail');
    const size = ref(4);
    const length = ref(32);
    /** The moment that is shown, from 1. */
    const moment = ref(1);
    const ranks = useRanks<RingRecord>();
    const canMove = useMotion();
    const isPlaying = ref(false);
    let timer: ReturnType<typeof setInterval> | undefined;

    const task = computed((): RingTask => {
      return { method: method.value, order: order.value, length: length.value };
    });
    const records = computed(() => (ranks.state.value?.values ?? []).flat());
    const pass = computed(() => ringPass(task.value, size.value, records.value));
    const moments = computed(() => pass.value.moments.length);

    const hold = (): void => {
      clearInterval(timer);
      isPlaying.value = false;
    };
    const play = (): void => {
      if (isPlaying.value) return hold();
      if (moment.value >= moments.value) moment.value = 1;
      isPlaying.value = true;
      timer = setInterval(() => {
        if (moment.value >= moments.value || document.hidden) hold();
        else moment.value += 1;
      }, MOMENT_MS);
    };
    const run = (): void => {
      hold();
      moment.value = 1;
      ranks.start(
        size.value,
        task.value,
        () => new Worker(new URL('./ring-rank.ts', import.meta.url), { type: 'module' }),
      );
    };
    watch([task, size], () => {
      hold();
      ranks.stop();
      ranks.state.value = undefined;
      moment.value = 1;
    });
    onBeforeUnmount(hold);

    const summary = (): string => {
      const word = pass.value.isRecorded
        ? 'recorded'
        : ranks.state.value === undefined
          ? 'planned'
          : 'being computed';
      const balance = balanceOf(pairsOfRanks(pass.value)).toFixed(2);
      return `Moment ${moment.value} of ${moments.value}, ${word}. The slowest rank computes ${balance} times the mean.`;
    };
    const difference = (): VNode | null => {
      if (!pass.value.isRecorded) return null;
      const far = Math.max(...records.value.map((record) => record.difference));
      return h(
        'p',
        { class: 'setting' },
        `The gradients differ from those of one rank by ${far.toExponential(1)} at most.`,
      );
    };

    return (): VNode => {
      const button = (text: string, disabled: boolean, onClick: () => void): VNode =>
        h(
          'button',
          { type: 'button', disabled, class: { primary: text === 'Run on ranks' }, onClick },
          text,
        );
      return explorer('Attention to a sequence that ranks share', [
        h('div', { class: 'controls' }, [
          choice('Method', method, methods),
          choice('Order', order, orders),
          choice('Ranks', size, [2, 4, 8]),
          slider('Tokens', length, { min: 16, max: 96, step: 16 }),
        ]),
        h('div', { class: 'buttons' }, [
          button('Run on ranks', !ranks.canRun(), run),
          button('Back', moment.value <= 1, () => (moment.value -= 1)),
          button('Step', moment.value >= moments.value, () => (moment.value += 1)),
          canMove.value
            ? button(isPlaying.value ? 'Hold' : 'Play', moments.value === 1, play)
            : null,
        ]),
        spoken(summary()),
        ringDrawing(pass.value, moment.value - 1),
        h(
          'p',
          { class: 'setting' },
          'A place of the sequence has the colour of the rank whose token it is. The third line is as long as the pairs of queries and keys that the rank has computed.',
        ),
        momentTable(pass.value, moment.value - 1),
        bytesTable(task.value, pass.value, records.value),
        // The place is kept free, so that nothing moves when ranks say something.
        h('div', { class: 'said' }, [
          difference(),
          ...ranks.notes(),
          ...(ranks.state.value?.ends ?? []).flatMap((end, rank) =>
            end?.error === undefined
              ? []
              : [h('p', { class: 'problem', role: 'alert' }, `rank ${rank}: ${end.error.message}`)],
          ),
        ]),
      ]);
    };
  },
});

function momentTable({ cut, moments, isRecorded }: RingPass, moment: number): VNode {
  const now = moments[moment] ?? [];
  return table(
    `The ranks at this moment, ${isRecorded ? 'as their messages say' : 'as planned'}`,
    [
      { title: 'rank' },
      { title: 'tokens' },
      { title: 'queries of' },
      { title: 'keys and values of' },
      { title: 'pairs now', isNumber: true },
      { title: 'pairs in all', isNumber: true },
    ],
    now.map(({ queries, keys, pairs }, rank): readonly Cell[] => [
      { text: `rank ${rank}`, node: rankLabel(rank) },
      stretchesText([...cut.placesOf(rank)].filter((place) => place < cut.length)),
      stretchesText(queries),
      stretchesText(keys),
      pairs,
      moments.reduce((sum, each) => sum + (each[rank]?.pairs ?? 0), 0),
    ]),
  );
}

function bytesTable(task: RingTask, pass: RingPass, records: readonly RingRecord[]): VNode {
  const planned = bytesByFormula(task, pass);
  const [first] = pass.isRecorded ? records : [];
  const found = first === undefined ? undefined : recordedBytes(first);
  return h('div', [
    table(
      'What a rank gets from others for attention',
      [
        { title: 'pass' },
        { title: 'by the formula', isNumber: true },
        { title: 'in messages', isNumber: true },
      ],
      (['forward', 'backward'] as const).map((each) => [
        each,
        bytesText(planned[each]),
        found === undefined ? '–' : bytesText(found[each]),
      ]),
    ),
    h(
      'p',
      { class: 'setting two-lines' },
      `n ranks have t tokens of c features each: ${planned.formula}.`,
    ),
  ]);
}

/** Writes ascending numbers as stretches, such as `0–3, 28–31`. */
function stretchesText(places: readonly number[]): string {
  const stretches: { first: number; last: number }[] = [];
  for (const place of places) {
    const latest = stretches.at(-1);
    if (latest?.last === place - 1) latest.last = place;
    else stretches.push({ first: place, last: place });
  }
  const texts = stretches.map(({ first, last }) =>
    first === last ? String(first) : `${first}–${last}`,
  );
  return texts.join(', ') || 'none';
}
