import { computed, defineComponent, h, onBeforeUnmount, ref, watch, type VNode } from 'vue';
import { choice, explorer, slider, spoken, table } from './controls.ts';
import { bytesText, millisecondsText } from './quantities.ts';
import {
  operations,
  recordCollective,
  timeOf,
  type OperationName,
  type RecordedMessage,
} from './record-collective.ts';

const sizes = { '64 B': 64, '4 KiB': 4096, '64 KiB': 65_536, '1 MiB': 1 << 20, '16 MiB': 1 << 24 };
const latencies = { '1 µs (one host)': 0.001, '30 µs (a rack)': 0.03, '1 ms (far away)': 1 };
const bandwidths = { '1 Gbit/s': 1.25e8, '10 Gbit/s': 1.25e9, '100 Gbit/s': 1.25e10 };

/** Messages of a real group on loopback, round by round. */
export const CollectiveExplorer = defineComponent({
  name: 'CollectiveExplorer',
  setup() {
    const operation = ref<OperationName>('allReduce');
    const algorithm = ref<string>('ring');
    const ranks = ref(4);
    const bytes = ref(sizes['1 MiB']);
    const latencyMs = ref(latencies['30 µs (a rack)']);
    const bytesPerSecond = ref(bandwidths['10 Gbit/s']);
    const round = ref(1);
    const messages = ref<readonly RecordedMessage[]>([]);
    const others = ref<readonly (readonly [string, readonly RecordedMessage[]])[]>([]);
    const problem = ref('');
    let timer: ReturnType<typeof setInterval> | undefined;
    const isPlaying = ref(false);

    const rounds = computed(() => Math.max(1, ...messages.value.map((message) => message.round)));
    const link = computed(() => ({
      latencyMs: latencyMs.value,
      bytesPerSecond: bytesPerSecond.value,
    }));

    const stop = (): void => {
      clearInterval(timer);
      isPlaying.value = false;
    };

    const record = async (): Promise<void> => {
      try {
        const all = await Promise.all(
          operations[operation.value].map(
            async (name) =>
              [
                name,
                await recordCollective(operation.value, name, ranks.value, bytes.value),
              ] as const,
          ),
        );
        others.value = all;
        messages.value = all.find(([name]) => name === algorithm.value)?.[1] ?? [];
        problem.value = '';
        round.value = 1;
      } catch (error) {
        problem.value = error instanceof Error ? error.message : String(error);
      }
    };

    watch(operation, (name) => (algorithm.value = operations[name][0]));
    watch([operation, algorithm, ranks, bytes], () => {
      stop();
      void record();
    });
    void record();
    onBeforeUnmount(stop);

    const play = (): void => {
      if (isPlaying.value) return stop();
      round.value = 1;
      isPlaying.value = true;
      timer = setInterval(() => {
        if (round.value >= rounds.value || document.hidden) stop();
        else round.value += 1;
      }, 900);
    };

    return (): VNode =>
      explorer('Collectives', [
        h('div', { class: 'controls' }, [
          choice('Collective', operation, Object.keys(operations) as readonly OperationName[]),
          choice('Algorithm', algorithm, operations[operation.value]),
          slider('Ranks', ranks, { min: 2, max: 8 }),
          choice('Bytes', bytes, sizes),
          choice('Latency', latencyMs, latencies),
          choice('Bandwidth', bytesPerSecond, bandwidths),
        ]),
        problem.value === '' ? null : h('p', { class: 'problem', role: 'alert' }, problem.value),
        spoken(
          `${algorithm.value}: ${messages.value.length} messages in ${rounds.value} rounds, ${millisecondsText(timeOf(messages.value, link.value))} on this link.`,
        ),
        h('div', { class: 'buttons' }, [
          h('button', { type: 'button', onClick: play }, isPlaying.value ? 'Pause' : 'Play'),
          h(
            'button',
            { type: 'button', disabled: round.value <= 1, onClick: () => (round.value -= 1) },
            'Back',
          ),
          h(
            'button',
            {
              type: 'button',
              disabled: round.value >= rounds.value,
              onClick: () => (round.value += 1),
            },
            'Step',
          ),
          slider('Round', round, { min: 1, max: rounds.value }),
        ]),
        circle(
          ranks.value,
          messages.value.filter((message) => message.round === round.value),
        ),
        table(
          `Messages of round ${round.value}`,
          [{ title: 'from' }, { title: 'to' }, { title: 'bytes', isNumber: true }],
          messages.value
            .filter((message) => message.round === round.value)
            .map(({ from, to, bytes }) => [`rank ${from}`, `rank ${to}`, bytesText(bytes)]),
        ),
        table(
          `All algorithms of ${operation.value}, on this link`,
          [
            { title: 'algorithm' },
            { title: 'rounds', isNumber: true },
            { title: 'messages', isNumber: true },
            { title: 'most sent by a rank', isNumber: true },
            { title: 'time', isNumber: true },
          ],
          others.value.map(([name, own]) => [
            name,
            Math.max(0, ...own.map((message) => message.round)),
            own.length,
            bytesText(mostSent(own)),
            millisecondsText(timeOf(own, link.value)),
          ]),
        ),
      ]);
  },
});

function mostSent(messages: readonly RecordedMessage[]): number {
  const sent = [...Map.groupBy(messages, ({ from }) => from).values()].map((own) =>
    own.reduce((sum, { bytes }) => sum + bytes, 0),
  );
  return Math.max(0, ...sent);
}

const SIZE = 320;

function circle(ranks: number, messages: readonly RecordedMessage[]): VNode {
  const at = (rank: number): readonly [number, number] => {
    const angle = (2 * Math.PI * rank) / ranks - Math.PI / 2;
    return [SIZE / 2 + 120 * Math.cos(angle), SIZE / 2 + 120 * Math.sin(angle)];
  };
  return h(
    'svg',
    {
      class: 'circle',
      viewBox: `0 0 ${SIZE} ${SIZE}`,
      role: 'img',
      'aria-label': `${messages.length} messages between ${ranks} ranks; the table lists them`,
    },
    [
      h(
        'defs',
        h(
          'marker',
          {
            id: 'arrow',
            viewBox: '0 0 8 8',
            refX: 7,
            refY: 4,
            markerWidth: 7,
            markerHeight: 7,
            orient: 'auto',
          },
          h('path', { d: 'M0 0 8 4 0 8z', fill: 'var(--vp-c-brand-1)' }),
        ),
      ),
      ...messages.map(({ from, to }) => {
        const [[x1, y1], [x2, y2]] = [at(from), at(to)];
        const length = Math.hypot(x2 - x1, y2 - y1);
        const [dx, dy] = [(x2 - x1) / length, (y2 - y1) / length];
        // Bent to one side, so that messages of both directions are seen.
        const [mx, my] = [(x1 + x2) / 2 - 18 * dy, (y1 + y2) / 2 + 18 * dx];
        return h('path', {
          d: `M${x1 + 22 * dx} ${y1 + 22 * dy} Q${mx} ${my} ${x2 - 24 * dx} ${y2 - 24 * dy}`,
          class: 'message',
          'marker-end': 'url(#arrow)',
        });
      }),
      ...Array.from({ length: ranks }, (_, rank) => {
        const [x, y] = at(rank);
        return h('g', [
          h('circle', { cx: x, cy: y, r: 20, class: 'rank' }),
          h('text', { x, y: y + 5, 'text-anchor': 'middle', class: 'rank-name' }, String(rank)),
        ]);
      }),
    ],
  );
}
