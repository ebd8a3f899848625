import { testAdaptersOnRanks } from './lora-ranks-table.ts';

// The slow test has every kind of adapter under every strategy.
testAdaptersOnRanks({ hasAll: false });
