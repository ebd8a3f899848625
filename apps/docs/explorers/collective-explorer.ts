import {
  computed,
  defineComponent,
  h,
  onBeforeUnmount,
  onMounted,
  ref,
  shallowRef,
  watch,
  type Ref,
  type VNode,
} from 'vue';
import { choice, explorer, slider, spoken, table } from './controls.ts';
import { bytesText, millisecondsText } from './quantities.ts';
import {
  algorithmsOf,
  crosses,
  hostsOf,
  mostSent,
  operations,
  recordCollective,
  timeOf,
  type Link,
  type OperationName,
  type RecordedMessage,
} from './record-collective.ts';
import { leastSent } from './least-sent.ts';
import { ringOfRanks } from './ring-of-ranks.ts';
import { useMotion } from './use-motion.ts';

const sizes = { '64 B': 64, '4 KiB': 4096, '64 KiB': 65_536, '1 MiB': 1 << 20, '16 MiB': 1 << 24 };
/** The places of the sliders. Neighbouring values differ by similar factors. */
const microseconds = { stops: [1, 2, 5, 10, 20, 30, 50, 100, 200, 500, 1000, 2000, 5000] };
const gigabits = { stops: [0.1, 0.2, 0.5, 1, 2, 5, 10, 25, 50, 100, 200, 400, 800, 1600] };

interface LinkSetting {
  /** In microseconds. */
  readonly latency: Ref<number>;
  /** In gigabits per second. */
  readonly bandwidth: Ref<number>;
}

function linkOf({ latency, bandwidth }: LinkSetting): Link {
  return { latencyMs: latency.value / 1000, bytesPerSecond: (bandwidth.value * 1e9) / 8 };
}

function linkSliders(place: string, { latency, bandwidth }: LinkSetting): readonly VNode[] {
  return [
    slider(`Latency${place}`, latency, microseconds, 'µs'),
    slider(`Bandwidth${place}`, bandwidth, gigabits, 'Gbit/s'),
  ];
}

/** Shows the messages of a real group on loopback transports, round by round. */
export const CollectiveExplorer = defineComponent({
  name: 'CollectiveExplorer',
  setup() {
    const operation = ref<OperationName>('allReduce');
    const algorithm = ref<string>('ring');
    const ranks = ref(4);
    const bytes = ref(sizes['1 MiB']);
    const hostCount = ref(1);
    const inside: LinkSetting = { latency: ref(30), bandwidth: ref(10) };
    const between: LinkSetting = { latency: ref(500), bandwidth: ref(1) };
    const round = ref(1);
    /** The messages of each algorithm. */
    const recordings = shallowRef<readonly (readonly [string, readonly RecordedMessage[]])[]>([]);
    const messages = computed(
      () => recordings.value.find(([name]) => name === algorithm.value)?.[1] ?? [],
    );
    const problem = ref('');
    const hosts = computed(() => hostsOf(ranks.value, Math.min(hostCount.value, ranks.value)));
    /** Counts recordings. A recording that ends after a later one has begun is not shown. */
    let latest = 0;
    let timer: ReturnType<typeof setInterval> | undefined;
    const isPlaying = ref(false);
    const canMove = useMotion();

    const rounds = computed(() => Math.max(1, ...messages.value.map((message) => message.round)));
    const ofRound = computed(() =>
      messages.value.filter((message) => message.round === round.value),
    );
    const network = computed(() => ({
      hosts: hosts.value,
      inside: linkOf(inside),
      between: linkOf(between),
    }));

    const stop = (): void => {
      clearInterval(timer);
      isPlaying.value = false;
    };

    const record = async (): Promise<void> => {
      const own = ++latest;
      const group = { operation: operation.value, bytes: bytes.value, hosts: hosts.value };
      const all: (readonly [string, readonly RecordedMessage[]])[] = [];
      try {
        // The algorithms run one after the other, because each run needs the memory of all its ranks.
        for (const name of algorithmsOf(operation.value, hostCount.value)) {
          all.push([name, await recordCollective({ ...group, algorithm: name })]);
          if (own !== latest) return;
        }
        problem.value = '';
      } catch (error) {
        problem.value = error instanceof Error ? error.message : String(error);
        all.length = 0;
      }
      recordings.value = all;
      round.value = 1;
    };

    watch([operation, hostCount], ([name, count]) => {
      const known = algorithmsOf(name, count);
      if (!known.includes(algorithm.value)) algorithm.value = known[0] ?? '';
    });
    watch([operation, hosts, bytes], () => {
      stop();
      void record();
    });
    watch(algorithm, () => {
      stop();
      round.value = 1;
    });
    // What the server writes is what the page draws first, so the messages are recorded after that.
    onMounted(record);
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
          choice('Algorithm', algorithm, algorithmsOf(operation.value, hostCount.value)),
          slider('Ranks', ranks, { min: 2, max: 16 }),
          choice('Hosts', hostCount, [1, 2, 4]),
          choice('Bytes', bytes, sizes),
          ...linkSliders('', inside),
          ...(hostCount.value > 1 ? linkSliders(' between hosts', between) : []),
        ]),
        problem.value === '' ? null : h('p', { class: 'problem', role: 'alert' }, problem.value),
        spoken(
          messages.value.length === 0
            ? 'The messages are being recorded.'
            : `${algorithm.value}: ${messages.value.length} messages in ${rounds.value} rounds, ${millisecondsText(timeOf(messages.value, network.value))} on this network.`,
        ),
        h('div', { class: 'buttons' }, [
          canMove.value
            ? h('button', { type: 'button', onClick: play }, isPlaying.value ? 'Pause' : 'Play')
            : null,
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
        h('div', { class: 'beside' }, [
          h('div', [
            ringOfRanks(hosts.value, ofRound.value),
            hostCount.value > 1
              ? h('p', { class: 'setting' }, 'An arc is a host. Dashed: to another host.')
              : null,
          ]),
          h('div', { class: 'round' }, [
            table(
              `Messages of round ${round.value}`,
              [{ title: 'from' }, { title: 'to' }, { title: 'bytes', isNumber: true }],
              ofRound.value.map(({ from, to, bytes: sent }) => [
                `rank ${from}`,
                `rank ${to}`,
                bytesText(sent),
              ]),
            ),
          ]),
        ]),
        table(
          `All algorithms of ${operation.value}, on this network`,
          [
            { title: 'algorithm' },
            { title: 'rounds', isNumber: true },
            { title: 'messages', isNumber: true },
            { title: 'most sent by a rank', isNumber: true },
            { title: 'of the least possible', isNumber: true },
            ...(hostCount.value > 1 ? [{ title: 'most that leaves a host', isNumber: true }] : []),
            { title: 'time', isNumber: true },
          ],
          recordings.value.map(([name, own]) => [
            name,
            Math.max(0, ...own.map((message) => message.round)),
            own.length,
            bytesText(mostSent(own)),
            `${(mostSent(own) / leastSent(operation.value, ranks.value, bytes.value)).toFixed(2)} ×`,
            ...(hostCount.value > 1
              ? [
                  bytesText(
                    mostSent(
                      own.filter((message) => crosses(message, hosts.value)),
                      (rank) => hosts.value[rank] ?? rank,
                    ),
                  ),
                ]
              : []),
            millisecondsText(timeOf(own, network.value)),
          ]),
        ),
        h('p', { class: 'setting' }, leastText(operation.value)),
      ]);
  },
});

function leastText(operation: OperationName): string {
  const least = { allReduce: '2(n−1)/n', allGather: '(n−1)/n', reduceScatter: '(n−1)/n' } as const;
  return operation === 'broadcast'
    ? 'The least possible: the root sends all bytes once.'
    : `The least possible: with n ranks, each sends ${least[operation]} of all bytes, whatever the algorithm.`;
}
