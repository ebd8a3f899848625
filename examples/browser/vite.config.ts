import { defineConfig, type UserConfig } from 'vite';

/** Ranks share memory in pages that are isolated from other sites; without these headers they post messages. */
const headers = {
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Embedder-Policy': 'require-corp',
};

const config: UserConfig = defineConfig({
  base: './',
  resolve: {
    // The model is that of examples/gpt, which imports the library as scripts of `shardwise run` do.
    alias: [{ find: /^shardwise$/, replacement: 'shardwise/browser' }],
    // In this repository, the sources of the packages.
    conditions: ['@shardwise/source', 'module', 'browser', 'development|production'],
  },
  // A rank loads the device that it uses by import().
  worker: { format: 'es' },
  build: {
    target: 'es2024',
    rolldownOptions: {
      input: ['index.html', 'contract.html'].map((page) => `${import.meta.dirname}/${page}`),
    },
  },
  server: { headers },
  preview: { headers },
});

export default config;
