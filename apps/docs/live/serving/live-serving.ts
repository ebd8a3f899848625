import {
  computed,
  defineComponent,
  h,
  onBeforeUnmount,
  onMounted,
  ref,
  shallowRef,
  watch,
  type VNode,
} from 'vue';
import { choice, explorer, spoken } from '../../explorers/controls.ts';
import { useDeviceChoice } from '../device-choice.ts';
import { drawBlocks } from './blocks-drawing.ts';
import {
  BLOCK_SIZE,
  BLOCKS,
  type ServedText,
  type ServingNews,
  type ServingOrder,
} from './serving-messages.ts';

/** Questions that begin like others, so that they share blocks, and some that do not. */
const prompts = [
  'Where a rank is ',
  'The more ranks there are, ',
  'Where a rank is gone, ',
  'A rank has a ',
  'Each rank sends ',
  'Where a rank is slow, ',
];
const paces = { '3 a second': 330, '10 a second': 100, 'as they come': 0 } as const;
/** The longest duration of a worker. */
const MOST_MS = 600_000;

/** Trains a small model in a worker of the page, and serves requests with it. Shows the blocks of its cache. */
export const LiveServing = defineComponent({
  name: 'LiveServing',
  setup() {
    const { device, control } = useDeviceChoice();
    const steps = ref(400);
    const pause = ref<number>(paces['10 a second']);
    const prompt = ref('A good plan ');
    const news = shallowRef<ServingNews>();
    const training = shallowRef<Extract<ServingNews, { kind: 'training' }>>();
    const isReady = ref(false);
    let worker: Worker | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    let asked = 0;

    const tell = (order: ServingOrder): void => worker?.postMessage(order);
    const stop = (): void => {
      clearTimeout(timer);
      worker?.terminate();
      worker = undefined;
      news.value = undefined;
      training.value = undefined;
    };
    const fail = (message: string): void => {
      stop();
      news.value = { kind: 'failed', message };
    };
    const start = (): void => {
      stop();
      worker = new Worker(new URL('./serving-worker.ts', import.meta.url), { type: 'module' });
      worker.addEventListener('message', ({ data }: MessageEvent<ServingNews>) => {
        if (data.kind === 'failed') return fail(data.message);
        if (data.kind === 'training') training.value = data;
        news.value = data;
      });
      worker.addEventListener('error', (event) => {
        event.preventDefault();
        fail(`The worker did not start: ${event.message}. Load the page again`);
      });
      timer = setTimeout(() => fail('The worker has run for 10 minutes and was ended.'), MOST_MS);
      tell({ kind: 'pace', pauseMs: pause.value });
      tell({ kind: 'begin', device: device.value, steps: steps.value });
    };
    const ask = (text: string): void => {
      const id = asked++;
      tell({ kind: 'ask', id, prompt: text, seed: id });
    };
    watch(pause, (pauseMs) => tell({ kind: 'pace', pauseMs }));
    onMounted(() => {
      isReady.value = typeof Float16Array !== 'undefined' && typeof Worker !== 'undefined';
    });
    onBeforeUnmount(stop);

    const serving = computed(() => (news.value?.kind === 'serving' ? news.value : undefined));
    const isBusy = computed(() => news.value?.kind === 'training');

    return (): VNode =>
      explorer('Requests that a page serves', [
        h('div', { class: 'controls' }, [
          control(),
          choice('Steps of training', steps, [25, 400]),
          choice('Steps that answer', pause, paces),
        ]),
        h('div', { class: 'buttons' }, [
          serving.value === undefined
            ? button('Train and serve', start, isReady.value && !isBusy.value, 'primary')
            : button('Ask six at once', () => prompts.forEach(ask), true, 'primary'),
          h('label', { class: 'control' }, [
            h('span', 'A request'),
            h('input', {
              type: 'text',
              maxlength: 40,
              value: prompt.value,
              onInput: (event: Event) => {
                prompt.value = (event.target as HTMLInputElement).value;
              },
            }),
          ]),
          button(
            'Ask',
            () => ask(prompt.value),
            serving.value !== undefined && prompt.value !== '',
          ),
        ]),
        spoken(summaryOf(news.value, training.value)),
        drawBlocks(serving.value?.cache, BLOCKS, BLOCK_SIZE),
        h(
          'ul',
          { class: 'served' },
          (serving.value?.texts ?? []).map((text) =>
            textRow(text, serving.value?.cache.sequences ?? [], () =>
              tell({ kind: 'cancel', id: text.id }),
            ),
          ),
        ),
      ]);
  },
});

function button(text: string, onClick: () => void, isEnabled: boolean, kind = ''): VNode {
  return h('button', { type: 'button', class: kind, disabled: !isEnabled, onClick }, text);
}

function summaryOf(
  news: ServingNews | undefined,
  training: Extract<ServingNews, { kind: 'training' }> | undefined,
): string {
  if (news === undefined) {
    return 'A small model learns a text in this page first, and then answers requests.';
  }
  if (news.kind === 'failed') return news.message;
  if (news.kind === 'training') {
    return `Training, by ${news.device}: step ${news.step}, loss ${news.loss.toFixed(2)}.`;
  }
  const { running, waiting, usedBlocks, generatedTokens, steps, preemptions } = news.statistics;
  const by = training === undefined ? '' : `, by ${training.device}`;
  return `${running} run, ${waiting} wait, ${usedBlocks} of ${BLOCKS} blocks are used. ${generatedTokens} tokens in ${steps} steps${by}; interruptions: ${preemptions}.`;
}

function textRow(
  { sequence, prompt, text, isOver }: ServedText,
  sequences: readonly {
    readonly number: number;
    readonly state: string;
    readonly preemptions: number;
  }[],
  cancel: () => void,
): VNode {
  const now = sequences.find(({ number }) => number === sequence);
  const state = isOver ? 'ended' : (now?.state ?? 'ended');
  const taken = (now?.preemptions ?? 0) > 0 ? `, interruptions: ${now?.preemptions}` : '';
  return h('li', { key: sequence, class: isOver ? 'over' : '' }, [
    h('i', { class: `block s${sequence % 8}`, 'aria-hidden': 'true' }),
    h('span', { class: 'state' }, `${sequence}: ${state}${taken} `),
    h('q', [prompt, h('b', text)]),
    isOver
      ? null
      : h(
          'button',
          { type: 'button', 'aria-label': `Cancel request ${sequence}`, onClick: cancel },
          'Cancel',
        ),
  ]);
}
