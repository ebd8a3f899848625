import { defineComponent, h, ref, type PropType, type VNode } from 'vue';
import { choice, slider } from '../../explorers/controls.ts';
import { lossChart } from '../line-chart.ts';
import { useLiveRun } from '../use-live-run.ts';
import { fitDrawing } from './fit-drawing.ts';
import type { PointLook, PointTask } from './point-task.ts';

const STEPS = 400;

/** A sine or two spirals, learned by ranks that are workers of this page. */
export const LiveTraining = defineComponent({
  name: 'LiveTraining',
  props: {
    model: { type: String as PropType<PointTask['model']>, default: 'spirals' },
    size: { type: Number, default: 2 },
    strategy: { type: String as PropType<PointTask['strategy']>, default: 'ddp' },
  },
  setup(props) {
    const model = ref<PointTask['model']>(props.model);
    const strategy = ref<PointTask['strategy']>(props.strategy);
    const size = ref(props.size);
    const seed = ref(1);
    const { state, frame } = useLiveRun<PointLook>({
      title: 'Training in this page',
      size,
      options: () => ({
        size: size.value,
        steps: STEPS,
        seed: seed.value,
        task: { model: model.value, strategy: strategy.value } satisfies PointTask,
        script: () => new Worker(new URL('./point-rank.ts', import.meta.url), { type: 'module' }),
      }),
    });

    return (): VNode =>
      frame(
        [
          choice('Task', model, { 'two spirals': 'spirals', sine: 'sine' } as const),
          choice('Strategy', strategy, ['ddp', 'zero-2', 'fsdp'] as const),
          choice('Ranks', size, [1, 2, 3, 4, 6, 8]),
          slider('Seed', seed, { min: 1, max: 20 }),
        ],
        [
          h('div', { class: 'two' }, [
            h('figure', [
              h(
                'figcaption',
                model.value === 'sine'
                  ? 'Points, and what is learned'
                  : 'Points by rank, and the boundary',
              ),
              fitDrawing(model.value, size.value, state.value?.ranks[0]?.snapshot?.look ?? []),
            ]),
            lossChart(state.value?.losses ?? [], { most: STEPS }),
          ]),
        ],
      );
  },
});
