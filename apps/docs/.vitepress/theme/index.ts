import DefaultTheme from 'vitepress/theme';
import type { Theme } from 'vitepress';
import { defineAsyncComponent, h } from 'vue';
import { NotFound } from './not-found.ts';
import './style.css';

export default {
  extends: DefaultTheme,
  Layout: () => h(DefaultTheme.Layout, null, { 'not-found': () => h(NotFound) }),
  enhanceApp({ app }) {
    // Each is loaded by the pages that show it.
    app.component(
      'PipelineExplorer',
      defineAsyncComponent(
        async () => (await import('../../explorers/pipeline-explorer.ts')).PipelineExplorer,
      ),
    );
    app.component(
      'CollectiveExplorer',
      defineAsyncComponent(
        async () => (await import('../../explorers/collective-explorer.ts')).CollectiveExplorer,
      ),
    );
    app.component(
      'LayoutExplorer',
      defineAsyncComponent(
        async () => (await import('../../explorers/layout-explorer.ts')).LayoutExplorer,
      ),
    );
    app.component(
      'MemoryExplorer',
      defineAsyncComponent(
        async () => (await import('../../explorers/memory-explorer.ts')).MemoryExplorer,
      ),
    );
    app.component(
      'Playground',
      defineAsyncComponent(async () => (await import('../../playground/playground.ts')).Playground),
    );
    app.component(
      'LiveTraining',
      defineAsyncComponent(async () => (await import('../../live/live-training.ts')).LiveTraining),
    );
  },
} satisfies Theme;
