"""The jobs of ten_jobs.py as users of other libraries write them, to be read and counted beside those.

Nothing here is run by tests: the functions import what they need, and only show how many lines a job takes.
"""


def arrays(x, y, test):  # Keras
    import keras

    model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(3)])
    model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    model.fit(x, y, batch_size=64, epochs=10)
    _, accuracy = model.evaluate(*test)
    return accuracy, model.predict(test[0]).argmax(axis=1)


def loader(module, train_loader, validation_loader):  # Lightning
    import lightning
    import torch

    class Classifier(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.module = module

        def training_step(self, batch, _):
            x, y = batch
            return torch.nn.functional.cross_entropy(self.module(x), y)

        def validation_step(self, batch, _):
            x, y = batch
            self.log("accuracy", (self.module(x).argmax(1) == y).float().mean())

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    trainer = lightning.Trainer(max_epochs=10)
    trainer.fit(Classifier(), train_loader, validation_loader)
    return trainer.callback_metrics["accuracy"]


def accumulation(module, x, y):  # skorch, which leaves accumulation to a subclass
    import skorch
    import torch

    class Accumulating(skorch.NeuralNetClassifier):
        def get_loss(self, *args, **options):
            return super().get_loss(*args, **options) / 3  # 24 + 24 + 16 samples are not weighted rightly

        def train_step(self, batch, **options):
            step = self.train_step_single(batch, **options)
            self.steps = getattr(self, "steps", 0) + 1
            if self.steps % 3 == 0:
                self.optimizer_.step()
                self.optimizer_.zero_grad()
            return step

    net = Accumulating(module, criterion=torch.nn.CrossEntropyLoss, optimizer=torch.optim.AdamW,
                       batch_size=24, max_epochs=10)
    net.fit(x, y)
    return net.score(x, y)


def early_stopping(model, x, y, validation):  # Keras
    import keras

    stop = keras.callbacks.EarlyStopping(patience=3, restore_best_weights=True)
    model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    model.fit(x, y, validation_data=validation, epochs=100, callbacks=[stop])
    return model.evaluate(*validation)[1]


def schedule(module, x, y):  # PyTorch with transformers' schedule
    import torch
    import transformers

    data = torch.utils.data.TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
    loader = torch.utils.data.DataLoader(data, batch_size=64, shuffle=True)
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2, weight_decay=0.01)
    rates = transformers.get_cosine_schedule_with_warmup(optimizer, 10, 10 * len(loader))
    history = []
    for _ in range(10):
        for inputs, labels in loader:
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(module(inputs), labels).backward()
            torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
            history.append(rates.get_last_lr()[0])
            optimizer.step()
            rates.step()
    return history


def curves(model, x, y, validation, metric):  # Keras
    import keras
    import pandas

    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=[metric])
    history = model.fit(x, y, validation_data=validation, epochs=5)
    return pandas.DataFrame(history.history).plot()


def new_head(model, x, y, saved, path):  # Keras
    import keras

    model = keras.models.load_model(saved)
    for layer in model.layers[:-1]:
        layer.trainable = False
    model = keras.Sequential([*model.layers[:-1], keras.layers.Dense(5)])
    model.compile(keras.optimizers.Adam(1e-2), keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"])
    history = model.fit(x, y, epochs=5)
    model.export(path, format="onnx")
    return history.history["accuracy"][-1]


def lora(base, texts, tuned):  # transformers and peft
    import datasets
    import peft
    import transformers

    tokenizer = transformers.AutoTokenizer.from_pretrained(base)
    quantized = transformers.BitsAndBytesConfig(load_in_4bit=True)
    model = transformers.AutoModelForCausalLM.from_pretrained(base, quantization_config=quantized)
    model = peft.prepare_model_for_kbit_training(model)
    model = peft.get_peft_model(model, peft.LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM"))
    data = datasets.Dataset.from_dict({"text": texts})
    data = data.map(lambda row: tokenizer(row["text"], truncation=True, max_length=64), remove_columns="text")
    arguments = transformers.TrainingArguments(
        tuned, per_device_train_batch_size=4, gradient_accumulation_steps=4, learning_rate=4e-3, num_train_epochs=2)
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)
    transformers.Trainer(model, arguments, train_dataset=data, data_collator=collator).train()
    model.save_pretrained(tuned)
    prompt = tokenizer("Weather in", return_tensors="pt")
    return tokenizer.decode(model.generate(**prompt, max_new_tokens=20)[0])


def pairs(anchors, positives):  # sentence-transformers, whose cached loss is that of the whole batch, too
    import datasets
    import sentence_transformers

    model = sentence_transformers.SentenceTransformer("sentence-transformers/all-MiniLM-L6-v2")
    data = datasets.Dataset.from_dict({"anchor": anchors, "positive": positives})
    loss = sentence_transformers.losses.CachedMultipleNegativesRankingLoss(model, mini_batch_size=16)
    arguments = sentence_transformers.SentenceTransformerTrainingArguments(
        "out", per_device_train_batch_size=64, learning_rate=3e-3, num_train_epochs=4)
    sentence_transformers.SentenceTransformerTrainer(model, arguments, data, loss=loss).train()
    return model.encode(anchors) @ model.encode(positives).T


def grid_search(x, y):  # skorch
    import skorch
    import torch
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    module = torch.nn.Sequential(torch.nn.Linear(20, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    net = skorch.NeuralNetClassifier(module, criterion=torch.nn.CrossEntropyLoss, optimizer=torch.optim.Adam,
                                     max_epochs=5)
    pipeline = make_pipeline(StandardScaler(), net)
    return GridSearchCV(pipeline, {"neuralnetclassifier__lr": [1e-4, 1e-2]}, cv=2).fit(x, y).best_params_
