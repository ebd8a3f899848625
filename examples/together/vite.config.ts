import { defineConfig, type UserConfig } from 'vite';

const config: UserConfig = defineConfig({
  base: './',
  resolve: {
    // The training is that of train.ts, which imports the library as scripts of `shardwise run` do.
    alias: [{ find: /^shardwise$/, replacement: 'shardwise/browser' }],
    // In this repository, the page uses the sources of the packages.
    conditions: ['@shardwise/source', 'module', 'browser', 'development|production'],
  },
  // A rank loads the device that it uses by import(), which only ES modules support.
  worker: { format: 'es' },
  build: { target: 'es2024' },
});

export default config;
