import { defineConfig, type UserConfig } from 'vite';

/**
 * With these headers the page is isolated from other sites, so that ranks can share memory. Without them, ranks post
 * messages.
 */
const headers = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

const config: UserConfig = defineConfig({
  base: './',
  resolve: {
    // The model is that of examples/gpt, which imports the library in the same way as scripts of `shardwise run`.
    alias: [{ find: /^shardwise$/, replacement: 'shardwise/browser' }],
    // In this repository, the page uses the sources of the packages.
    conditions: ['@shardwise/source', 'module', 'browser', 'development|production'],
  },
  // A rank loads the device that it uses by import(), which only ES modules support.
  worker: { format: 'es' },
  build: {
    target: 'es2024',
    rolldownOptions: {
      input: ['index.html', 'contract.html', 'model.html'].map(
        (page) => `${import.meta.dirname}/${page}`,
      ),
    },
  },
  server: { headers },
  preview: { headers },
});

export default config;
